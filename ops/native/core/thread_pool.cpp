#include "core/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>

#include <csignal>
#define HEADRACE_POSIX
#endif

#include "core/forks.hpp"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

// Helpers that no call asked for in so long a time end: a call for many of them may be the only one of its kind.
constexpr auto kIdle = std::chrono::seconds(1);

// Signals are for the threads that Python knows: helpers start with all of them blocked, as they inherit.
class NoSignals {
 public:
#ifdef HEADRACE_POSIX
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
#endif
};

}  // namespace

class ThreadPool {
 public:
  void share(SharedWork& work) {
    std::unique_lock<std::mutex> lock(mutex_);
    most_wanted_ = std::max(most_wanted_now(), work.num_wanted_);
    grow(work.num_wanted_);
    works_.push_back(&work);
    const std::size_t num_called = std::min(work.num_wanted_, num_threads_);
    lock.unlock();
    for (std::size_t i = 0; i < num_called; ++i) shared_.notify_one();
  }

  void withdraw(SharedWork& work) {
    const auto alone = [&] { return work.num_helping_ == 0; };
    std::unique_lock<std::mutex> lock(mutex_);
    works_.remove(&work);
    if (alone()) return;
    lock.unlock();
    wait_awake(alone);
    lock.lock();
    work.left_.wait(lock, alone);
  }

  std::size_t num_threads() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return num_threads_;
  }

 private:
  // Most helpers that a call asked for in this span of time.
  std::size_t most_wanted_now() {
    if (const auto now = Clock::now(); now >= span_end_) {
      wanted_before_ = now < span_end_ + kIdle ? most_wanted_ : 0;
      most_wanted_ = 0;
      span_end_ = now + kIdle;
    }
    return most_wanted_;
  }

  // The same, or in the one before.
  std::size_t num_needed() { return std::max(most_wanted_now(), wanted_before_); }

  // Helpers are never joined: they hold nothing but a piece of work, for which its call waits.
  void grow(std::size_t num_threads) {
    if (num_threads_ >= num_threads) return;
    const NoSignals blocked;
    try {
      for (; num_threads_ < num_threads; ++num_threads_) std::thread([this] { help(); }).detach();
    } catch (const std::exception&) {
      // The process may not start more threads: calls make do with those there are, and with themselves.
    }
  }

  void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (works_.empty()) {
        if (num_threads_ > num_needed()) break;
        shared_.wait_for(lock, kIdle);
        continue;
      }
      SharedWork& work = *works_.front();
      if (--work.num_wanted_ == 0) works_.pop_front();
      ++work.num_helping_;
      lock.unlock();
      work.run_(work.work_);
      lock.lock();
      if (--work.num_helping_ == 0) work.left_.notify_one();
    }
    --num_threads_;
  }

  std::mutex mutex_;
  std::condition_variable shared_;
  std::list<SharedWork*> works_;  // those that want more helpers, the oldest first
  std::size_t num_threads_ = 0;
  std::size_t most_wanted_ = 0;
  std::size_t wanted_before_ = 0;
  Clock::time_point span_end_{};
};

namespace {

// Never destroyed: helpers sleep in it until the process is gone, and a call may still run while it exits.
PerProcess<ThreadPool>& pool_of_process = *new PerProcess<ThreadPool>;

std::atomic<bool> all_work_is_shared{false};

}  // namespace

void SharedWork::open() {
  pool_ = &pool_of_process.get();
  pool_->share(*this);
}

SharedWork::~SharedWork() { pool_->withdraw(*this); }

std::size_t threads_in_pool() { return pool_of_process.get().num_threads(); }

bool shares_all_work() { return all_work_is_shared.load(std::memory_order_relaxed); }

void share_all_work(bool on) { all_work_is_shared = on; }

}  // namespace headrace
