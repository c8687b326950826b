#include "core/forks.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define HEADRACE_POSIX
#endif

namespace headrace {
namespace {

std::atomic<std::uint64_t> forks{0};

#ifdef HEADRACE_POSIX
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
#endif

}  // namespace

std::uint64_t num_forks() { return forks.load(std::memory_order_relaxed); }

}  // namespace headrace
