#include "core/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>

#include <csignal>
#define HEADRACE_POSIX
#endif

namespace headrace {
namespace {

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
  static ThreadPool& of_process();

  void share(SharedWork& work) {
    std::unique_lock<std::mutex> lock(mutex_);
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

  [[noreturn]] void help() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      shared_.wait(lock, [this] { return !works_.empty(); });
      SharedWork& work = *works_.front();
      if (--work.num_wanted_ == 0) works_.pop_front();
      ++work.num_helping_;
      lock.unlock();
      work.run_(work.work_);
      lock.lock();
      if (--work.num_helping_ == 0) work.left_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable shared_;
  std::list<SharedWork*> works_;  // those that want more helpers, the oldest first
  std::size_t num_threads_ = 0;
};

namespace {

// Never destroyed: helpers sleep in it until the process is gone, and a call may still run while it exits.
std::atomic<ThreadPool*> pool_of_process{nullptr};

std::atomic<bool> all_work_is_shared{false};

#ifdef HEADRACE_POSIX
// A fork takes the calling thread alone along. The child leaves the pool as it is, in whatever state its lock was, and
// makes another one when it needs it.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { pool_of_process.store(nullptr, std::memory_order_relaxed); });
#endif

}  // namespace

ThreadPool& ThreadPool::of_process() {
  ThreadPool* pool = pool_of_process.load(std::memory_order_acquire);
  if (pool != nullptr) return *pool;
  auto* const fresh = new ThreadPool;
  if (pool_of_process.compare_exchange_strong(pool, fresh)) return *fresh;
  delete fresh;
  return *pool;
}

void SharedWork::open() {
  pool_ = &ThreadPool::of_process();
  pool_->share(*this);
}

SharedWork::~SharedWork() { pool_->withdraw(*this); }

std::size_t threads_in_pool() {
  ThreadPool* const pool = pool_of_process.load(std::memory_order_acquire);
  return pool == nullptr ? 0 : pool->num_threads();
}

bool shares_all_work() { return all_work_is_shared.load(std::memory_order_relaxed); }

void share_all_work(bool on) { all_work_is_shared = on; }

}  // namespace headrace
