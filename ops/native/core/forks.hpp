// What a fork leaves of locks: the child has the thread that forked alone, and finds those of all others as they were.
// Whatever threads share in a process is PerProcess, or made of atomics that are right at every step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace headrace {

// How many forks made this process out of the one that loaded the library.
std::uint64_t num_forks();

// A lock, and what it guards: new in a forked process, whoever has locked or half changed it in the parent, whose own
// is left as it is.
template <class Shared>
class PerProcess {
 public:
  PerProcess() : one_(new One) {}
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    if (One* const one = one_.load(); one->forks == num_forks()) delete one;
  }

  // The one of this process.
  Shared& get() {
    One* one = one_.load(std::memory_order_acquire);
    if (one->forks == num_forks()) return one->shared;
    auto fresh = std::make_unique<One>();
    return one_.compare_exchange_strong(one, fresh.get()) ? fresh.release()->shared : one->shared;
  }

 private:
  struct One {
    Shared shared;
    std::uint64_t forks = num_forks();
  };

  std::atomic<One*> one_;
};

using ProcessMutex = PerProcess<std::mutex>;

// A table that the first call to need it makes. It appears in one step: after a fork it is whole, or not there.
template <class Table>
class LazyTable {
 public:
  LazyTable() = default;
  LazyTable(const LazyTable&) = delete;
  LazyTable& operator=(const LazyTable&) = delete;
  ~LazyTable() { delete table_.load(); }

  // Other calls wait for the one that makes it.
  template <class Make>
  const Table& get(const Make& make) {
    if (const Table* const table = peek()) return *table;
    const std::lock_guard<std::mutex> lock(making_.get());
    if (peek() == nullptr) table_.store(new Table(make()), std::memory_order_release);
    return *peek();
  }

  // Null before it is made.
  const Table* peek() const { return table_.load(std::memory_order_acquire); }

 private:
  std::atomic<const Table*> table_{nullptr};
  ProcessMutex making_;
};

}  // namespace headrace
