// Run independent tasks on a few threads. Which thread runs which task is left to chance, so a task may only depend on
// its number.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "cores.hpp"

namespace headrace {

// Call body(task) for every task in [0, num_tasks), and finish(task) on this thread, in the order of the tasks, each as
// soon as that task and all before it are done. Rethrows what the tasks one after the other would have thrown first, so
// that the error a user sees does not depend on the number of threads; nothing behind it is finished.
template <class Body, class Finish>
void parallel_in_order(int num_threads, std::size_t num_tasks, const Body& body, const Finish& finish) {
  if (num_threads <= 1 || num_tasks <= 1) {
    for (std::size_t task = 0; task < num_tasks; ++task) {
      body(task);
      finish(task);
    }
    return;
  }
  struct Outcome {
    bool done = false;
    std::exception_ptr failure;
  };
  std::vector<Outcome> outcomes(num_tasks);
  std::mutex mutex;
  std::condition_variable progress;
  std::atomic<std::size_t> next{0};
  // Run the next task; false when there is none.
  const auto run_one = [&] {
    const std::size_t task = next++;
    if (task >= num_tasks) return false;
    std::exception_ptr failure;
    try {
      body(task);
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex);
      outcomes[task] = {true, failure};
    }
    progress.notify_one();
    return true;
  };
  const OtherCores other_cores;
  std::vector<std::thread> helpers;
  const std::size_t num_helpers = std::min(static_cast<std::size_t>(num_threads), num_tasks) - 1;
  helpers.reserve(num_helpers);
  {
    // No helper gets further than this lock, and so none ends, before all have their places.
    const std::lock_guard<std::mutex> placing(mutex);
    try {
      for (std::size_t i = 0; i < num_helpers; ++i) {
        helpers.emplace_back([&] {
          {
            const std::lock_guard<std::mutex> placed(mutex);
          }
          other_cores.release();
          while (run_one()) continue;
        });
        other_cores.place(helpers.back(), i);
      }
    } catch (const std::exception&) {
      // The process may not start more threads: those there are, and this one, do all the tasks.
    }
  }
  std::exception_ptr failure;
  try {
    for (std::size_t task = 0; task < num_tasks; ++task) {
      std::unique_lock<std::mutex> lock(mutex);
      while (!outcomes[task].done) {
        lock.unlock();
        const bool ran = run_one();
        lock.lock();
        if (!ran) progress.wait(lock, [&] { return outcomes[task].done; });
      }
      lock.unlock();
      if (outcomes[task].failure) std::rethrow_exception(outcomes[task].failure);
      finish(task);
    }
  } catch (...) {
    failure = std::current_exception();
    next = num_tasks;
  }
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

// The same with nothing to finish.
template <class Body>
void parallel_for(int num_threads, std::size_t num_tasks, const Body& body) {
  parallel_in_order(num_threads, num_tasks, body, [](std::size_t /*task*/) {});
}

// Bounds of part `part` when [0, size) is cut into `num_parts` nearly equal pieces: piece i is [bound(i), bound(i +
// 1)).
inline std::size_t part_bound(std::size_t size, std::size_t num_parts, std::size_t part) {
  return size / num_parts * part + std::min(part, size % num_parts);
}

}  // namespace headrace
