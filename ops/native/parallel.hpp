// Run independent tasks on a few threads. Which thread runs which task is left to chance, so a task may only depend on
// its number.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace {

// Call body(task) for every task in [0, num_tasks). All tasks run; of several exceptions the one of the lowest task is
// rethrown, so that the error a user sees does not depend on the number of threads.
template <class Body>
void parallel_for(int num_threads, std::size_t num_tasks, const Body& body) {
  if (num_threads <= 1 || num_tasks <= 1) {
    for (std::size_t task = 0; task < num_tasks; ++task) body(task);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::size_t failed_task = num_tasks;
  const auto work = [&] {
    for (std::size_t task = next++; task < num_tasks; task = next++) {
      try {
        body(task);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(failure_mutex);
        if (task < failed_task) {
          failed_task = task;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t num_helpers = std::min(static_cast<std::size_t>(num_threads), num_tasks) - 1;
  helpers.reserve(num_helpers);
  try {
    for (std::size_t i = 0; i < num_helpers; ++i) helpers.emplace_back(work);
  } catch (const std::exception&) {
    // The process may not start more threads: those there are, and this one, do all the tasks.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

// Bounds of part `part` when [0, size) is cut into `num_parts` nearly equal pieces: piece i is [bound(i), bound(i +
// 1)).
inline std::size_t part_bound(std::size_t size, std::size_t num_parts, std::size_t part) {
  return size / num_parts * part + std::min(part, size % num_parts);
}

}  // namespace headrace
