// Rings of io_uring that calls use one after the other.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "disk/io_uring.hpp"

namespace headrace {

#ifdef HEADRACE_IO_URING

// Making a ring takes as long as a read or two. Without a lock, which a forked process could find locked for ever; it
// finds its parent's rings here and closes them.
class RingPool {
 public:
  RingPool() = default;
  RingPool(const RingPool&) = delete;
  RingPool& operator=(const RingPool&) = delete;
  ~RingPool() {
    for (std::atomic<IoUring*>& place : kept_) delete place.load();
  }

  std::unique_ptr<IoUring> take(unsigned num_entries) {
    for (std::atomic<IoUring*>& place : kept_) {
      std::unique_ptr<IoUring> ring(place.exchange(nullptr));
      if (ring && ring->is_of_this_process()) return ring;
    }
    return std::make_unique<IoUring>(num_entries);
  }

  void give_back(std::unique_ptr<IoUring> ring) {
    for (std::atomic<IoUring*>& place : kept_) {
      IoUring* none = nullptr;
      if (place.compare_exchange_strong(none, ring.get())) {
        ring.release();
        return;
      }
    }
  }

 private:
  static constexpr std::size_t kMostKept = 8;  // about as many as threads read at once
  std::array<std::atomic<IoUring*>, kMostKept> kept_{};
};

#else

class RingPool {};

#endif

}  // namespace headrace
