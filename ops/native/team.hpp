// The threads of one call: the one that makes it, and helpers that end with it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace {

// Wait for `done()` to become true, awake, but not for long: a thread that sleeps takes tens of microseconds to come
// back, and in a virtual machine Linux may wake it up on the core of the thread that it helps, which it then waits for.
// Whoever else wants the core gets it. Returns done().
template <class Done>
bool wait_awake(const Done& done) {
  constexpr auto kPatience = std::chrono::milliseconds(1);  // a hop that one thread makes alone takes less
  if (done()) return true;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
    if (done()) return true;
  }
  return false;
}

// Runs jobs of independent tasks, one job after the other. Which thread runs which task is left to chance, so a task
// may only depend on its number. Between jobs helpers wait for the next one, so that only the first waits for their
// start.
class Team {
 public:
  explicit Team(int num_threads) : num_threads_(num_threads) {}
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int num_threads() const { return num_threads_; }

  // Start as many helpers as can take part in `num_tasks` tasks, unless they are there already. A call that knows what
  // will come starts them before, and goes on with what it does alone.
  void start(std::size_t num_tasks);

  // The job that is run next is the last one: a helper ends when no task of it is left to begin.
  void expect_last() { expects_last_ = true; }

  // Call body(task) for every task in [0, num_tasks), and finish(task) on this thread, in the order of the tasks, each
  // as soon as that task and all before it are done. Rethrows what the tasks one after the other would have thrown
  // first, so that the error a user sees does not depend on the number of threads; nothing behind it is finished.
  template <class Body, class Finish>
  void run_in_order(std::size_t num_tasks, const Body& body, const Finish& finish) {
    if (num_threads_ <= 1 || num_tasks <= 1) {
      for (std::size_t task = 0; task < num_tasks; ++task) {
        body(task);
        finish(task);
      }
      return;
    }
    struct Outcome {
      std::atomic<bool> done{false};
      std::exception_ptr failure;
    };
    std::vector<Outcome> outcomes(num_tasks);
    std::condition_variable progress;
    std::atomic<std::size_t> next{0};
    // Run the next task; false when there is none.
    const auto run_one = [&] {
      const std::size_t task = next++;
      if (task >= num_tasks) return false;
      try {
        body(task);
      } catch (...) {
        outcomes[task].failure = std::current_exception();
      }
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        outcomes[task].done = true;
      }
      progress.notify_one();
      return true;
    };
    start(num_tasks);
    begin({&run_one, [](const void* job) { return (*static_cast<const decltype(run_one)*>(job))(); }});
    std::exception_ptr failure;
    try {
      for (std::size_t task = 0; task < num_tasks; ++task) {
        const auto done = [&] { return outcomes[task].done.load(); };
        while (!done() && run_one()) continue;
        if (!wait_awake(done)) {
          std::unique_lock<std::mutex> lock(mutex_);
          progress.wait(lock, done);
        }
        if (outcomes[task].failure) std::rethrow_exception(outcomes[task].failure);
        finish(task);
      }
    } catch (...) {
      failure = std::current_exception();
      next = num_tasks;
    }
    end();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  // Of which a helper runs tasks until run_one returns false.
  struct Job {
    const void* tasks = nullptr;
    bool (*run_one)(const void* tasks) = nullptr;
  };

  void begin(Job job);
  void end();  // of the job: returns when no helper is at it any more
  void help();

  int num_threads_;
  bool expects_last_ = false;
  std::vector<std::thread> helpers_;
  std::mutex mutex_;  // guards what follows; counts are also read without it, to wait for them
  std::condition_variable called_;
  std::condition_variable returned_;
  std::atomic<std::size_t> num_calls_{0};  // of helpers: to jobs, and at last to leave
  std::atomic<std::size_t> num_busy_{0};
  Job job_;
  bool last_ = false;
};

}  // namespace headrace
