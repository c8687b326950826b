// Run independent tasks on a few threads. Which thread runs which task is left to chance, so a task may only depend on
// its number.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <vector>

#include "core/thread_pool.hpp"

namespace headrace {

// Threads for work that takes one thread about so many nanoseconds, num_threads at most. Waking a helper takes tens of
// microseconds, and to a hop or a copy that is over sooner it comes for nothing.
inline int threads_for(int num_threads, double nanoseconds) {
  constexpr double kLeastPerThread = 250e3;
  const int most = std::max(num_threads, 1);
  if (shares_all_work()) return most;
  return std::max(static_cast<int>(std::min(nanoseconds / kLeastPerThread, static_cast<double>(most))), 1);
}

// Tasks by number, each given out once, until one fails. As they are given out in order, the first to fail one after
// the other has begun by then: it is the error that a user sees, whatever the number of threads.
class TaskCounter {
 public:
  explicit TaskCounter(std::size_t num_tasks) : num_tasks_(num_tasks), failed_(num_tasks) {}

  // Run the next task; false when there is none.
  template <class Body>
  bool run_one(const Body& body) {
    const std::size_t task = next_++;
    if (task >= num_tasks_) return false;
    try {
      body(task);
    } catch (...) {
      next_ = num_tasks_;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (task < failed_) {
        failed_ = task;
        failure_ = std::current_exception();
      }
    }
    return true;
  }

  void stop() { next_ = num_tasks_; }

  // When no task is running any more.
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::size_t num_tasks_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;
  std::size_t failed_;
  std::exception_ptr failure_;
};

inline std::size_t helpers_for(int num_threads, std::size_t num_tasks) {
  return std::min(static_cast<std::size_t>(std::max(num_threads, 1)), std::max<std::size_t>(num_tasks, 1)) - 1;
}

// Call body(task) for every task in [0, num_tasks). Rethrows what the tasks one after the other would have thrown
// first.
template <class Body>
void parallel_for(int num_threads, std::size_t num_tasks, const Body& body) {
  const std::size_t num_helpers = helpers_for(num_threads, num_tasks);
  if (num_helpers == 0) {
    for (std::size_t task = 0; task < num_tasks; ++task) body(task);
    return;
  }
  TaskCounter tasks(num_tasks);
  const auto run = [&] {
    while (tasks.run_one(body)) continue;
  };
  {
    const SharedWork shared(num_helpers, run);
    run();
  }
  tasks.rethrow_failure();
}

// The same, and finish(task) on this thread, in the order of the tasks, each as soon as that task and all before it are
// done. Nothing behind a task that fails is finished.
template <class Body, class Finish>
void parallel_in_order(int num_threads, std::size_t num_tasks, const Body& body, const Finish& finish) {
  const std::size_t num_helpers = helpers_for(num_threads, num_tasks);
  if (num_helpers == 0) {
    for (std::size_t task = 0; task < num_tasks; ++task) {
      body(task);
      finish(task);
    }
    return;
  }
  enum : char { kOpen, kDone, kFailed };
  std::vector<std::atomic<char>> states(num_tasks);
  std::mutex mutex;
  std::condition_variable progress;
  TaskCounter tasks(num_tasks);
  const auto end = [&](std::size_t task, char state) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      states[task] = state;
    }
    progress.notify_one();
  };
  const auto run_one = [&] {
    return tasks.run_one([&](std::size_t task) {
      try {
        body(task);
      } catch (...) {
        end(task, kFailed);
        throw;
      }
      end(task, kDone);
    });
  };
  const auto run = [&] {
    while (run_one()) continue;
  };
  {
    const SharedWork shared(num_helpers, run);
    for (std::size_t task = 0; task < num_tasks; ++task) {
      const auto ended = [&] { return states[task] != kOpen; };
      while (!ended() && run_one()) continue;
      if (!wait_awake(ended)) {
        std::unique_lock<std::mutex> lock(mutex);
        progress.wait(lock, ended);
      }
      if (states[task] == kFailed) break;
      try {
        finish(task);
      } catch (...) {
        tasks.stop();
        throw;
      }
    }
  }
  tasks.rethrow_failure();
}

// Parts for work that can be cut anywhere: more than threads, so that one that another process holds up holds up
// little.
inline std::size_t parts_for(int num_threads) {
  constexpr std::size_t kPartsPerThread = 8;
  return num_threads == 1 ? 1 : kPartsPerThread * static_cast<std::size_t>(num_threads);
}

// Bounds of part `part` when [0, size) is cut into `num_parts` nearly equal pieces: piece i is [bound(i), bound(i +
// 1)).
inline std::size_t part_bound(std::size_t size, std::size_t num_parts, std::size_t part) {
  return size / num_parts * part + std::min(part, size % num_parts);
}

// Run body(i) for every i below `size`, in such parts.
template <class Body>
void parallel_for_each(int num_threads, std::size_t size, const Body& body) {
  // No more threads than there is work for: tiny tables are read too.
  num_threads = static_cast<int>(helpers_for(num_threads, size) + 1);
  const std::size_t num_parts = parts_for(num_threads);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t end = part_bound(size, num_parts, part + 1);
    for (std::size_t i = part_bound(size, num_parts, part); i < end; ++i) body(i);
  });
}

}  // namespace headrace
