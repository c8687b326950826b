#include "cores.hpp"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

namespace headrace {

void keep_off_this_core([[maybe_unused]] std::thread& helper,
                        [[maybe_unused]] std::size_t num_helpers_before) noexcept {
#ifdef __linux__
  cpu_set_t cores;
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof cores, &cores) != 0) return;
  if (static_cast<std::size_t>(CPU_COUNT(&cores)) <= num_helpers_before + 1) return;
  CPU_CLR(static_cast<std::size_t>(here), &cores);
  // Refused, it costs nothing but speed.
  static_cast<void>(pthread_setaffinity_np(helper.native_handle(), sizeof cores, &cores));
#endif
}

}  // namespace headrace
