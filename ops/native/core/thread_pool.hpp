// Helper threads of the whole process, which sleep until a call has work to share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>

namespace headrace {

class ThreadPool;

// Wait for `done()` to become true without going to sleep, for no longer than it takes to wake a thread up: what a
// helper does last for a call is mostly over sooner. Returns done().
template <class Done>
bool wait_awake(const Done& done) {
  constexpr auto kPatience = std::chrono::microseconds(30);
  if (done()) return true;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    if (done()) return true;
  }
  return done();
}

// Work of one call that threads of the pool may join. The call does all of it by itself if none comes: a helper is
// woken, never waited for, so that on a busy machine sharing costs no more than the wake-up.
class SharedWork {
 public:
  // `run()` does what is left of the work, piece by piece, until no piece is left to begin; it must not throw. Up to
  // `num_helpers` threads call it beside the one that makes this, which is to call it by itself.
  template <class Run>
  SharedWork(std::size_t num_helpers, const Run& run)
      : run_([](const void* work) { (*static_cast<const Run*>(work))(); }), work_(&run), num_wanted_(num_helpers) {
    open();
  }
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

  // From now on no helper comes. Waits for those that are in the middle of a piece.
  ~SharedWork();

 private:
  friend class ThreadPool;

  void open();

  void (*run_)(const void* work);
  const void* work_;
  ThreadPool* pool_ = nullptr;
  // The pool's lock guards what follows.
  std::size_t num_wanted_;
  std::atomic<std::size_t> num_helping_{0};  // also read without it, to wait for none
  std::condition_variable left_;
};

// Threads of the pool in this process: as many as one call asked for lately, none before the first that does.
std::size_t threads_in_pool();

// For the tests, whose graphs are small: whether calls share whatever they are given, however little work it is.
bool shares_all_work();
void share_all_work(bool on);

}  // namespace headrace
