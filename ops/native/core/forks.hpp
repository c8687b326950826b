// What a fork leaves of locks: the child has the thread that forked alone, and finds those of all others as they were.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace headrace {

// How many forks made this process out of the one that loaded the library.
std::uint64_t num_forks();

// A mutex that is open in a forked process, whoever has locked it in the parent.
class ProcessMutex {
 public:
  ProcessMutex() : one_(new One) {}
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;
  ~ProcessMutex() { delete one_.load(); }

  // The one of this process; that of the parent is left as it is.
  std::mutex& get() {
    One* one = one_.load(std::memory_order_acquire);
    if (one->forks == num_forks()) return one->mutex;
    auto fresh = std::make_unique<One>();
    return one_.compare_exchange_strong(one, fresh.get()) ? fresh.release()->mutex : one->mutex;
  }

 private:
  struct One {
    std::mutex mutex;
    std::uint64_t forks = num_forks();
  };

  std::atomic<One*> one_;
};

}  // namespace headrace
