#include "core/memory.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <list>
#include <map>
#include <mutex>
#include <new>

#include "core/huge_pages.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace headrace {
namespace {

// AddressSanitizer sees what malloc gives out. Tell it of the rest: only the first `bytes` of a block are anyone's.
void mark_usable([[maybe_unused]] void* block, [[maybe_unused]] std::size_t bytes,
                 [[maybe_unused]] std::size_t capacity) {
#ifdef __SANITIZE_ADDRESS__
  __asan_poison_memory_region(block, capacity);
  __asan_unpoison_memory_region(block, bytes);
#endif
}

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPooled = std::size_t{1} << 14;  // below this malloc recycles by itself

// Stands before every block.
struct alignas(kAlignment) Header {
  std::size_t capacity;
  bool pooled;
};

// Sizes in steps of an eighth, so that batches of slightly different sizes can use each other's blocks.
std::size_t rounded(std::size_t bytes) {
  if (bytes < kPooled) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::size_t step = kPooled / 8;
  while (bytes > step * 16) step *= 2;
  return (bytes + step - 1) / step * step;
}

Header* allocate(std::size_t capacity, bool pooled) {
  const std::size_t bytes = capacity + sizeof(Header);
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  if (bytes < capacity || bytes > PTRDIFF_MAX - alignment) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  prefer_huge_pages(memory, bytes);
  return new (memory) Header{capacity, pooled};
}

class Pool {
 public:
  Header* take(std::size_t capacity) {
    Blocks gone;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      used_ += capacity;
      most_used_ = std::max(most_used_, used_);
      // A block up to a quarter larger serves as well.
      if (const auto found = by_capacity_.lower_bound(capacity);
          found != by_capacity_.end() && found->first <= capacity + capacity / 4) {
        Header* const header = *found->second;
        used_ += header->capacity - capacity;
        kept_ -= header->capacity;
        waiting_.erase(found->second);
        by_capacity_.erase(found);
        return header;
      }
      gone = beyond_limit();
    }
    free_all(gone);
    try {
      return allocate(capacity, true);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      used_ -= capacity;
      throw;
    }
  }

  void give(Header* header) noexcept {
    Blocks gone;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      used_ -= header->capacity;
      if (!keep(header)) {
        std::free(header);
        return;
      }
      gone = beyond_limit();
    }
    free_all(gone);
  }

  std::size_t trim() noexcept {
    Blocks all;
    std::size_t bytes;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      all.swap(waiting_);
      by_capacity_.clear();
      bytes = kept_;
      kept_ = 0;
      most_used_ = used_;
    }
    free_all(all);
    return bytes;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  using Blocks = std::list<Header*>;

  // Take out what waits beyond the limit: blocks in use and those that wait have together as many bytes as were ever in
  // use at once, and an eighth for sizes that differ. Sizes that were needed once must not keep out those that are
  // needed in every batch: the oldest blocks go.
  Blocks beyond_limit() noexcept {
    Blocks gone;
    while (!waiting_.empty() && used_ + kept_ > most_used_ + most_used_ / 8) {
      const auto oldest = waiting_.begin();
      auto place = by_capacity_.find((*oldest)->capacity);
      while (place->second != oldest) ++place;
      kept_ -= (*oldest)->capacity;
      by_capacity_.erase(place);
      gone.splice(gone.end(), waiting_, oldest);
    }
    return gone;
  }

  // Without the lock: it may take the system a while.
  static void free_all(const Blocks& blocks) noexcept {
    for (Header* const block : blocks) std::free(block);
  }

  // False if there is no room for the note that the block waits.
  bool keep(Header* header) noexcept {
    try {
      waiting_.push_back(header);
    } catch (const std::bad_alloc&) {
      return false;
    }
    try {
      by_capacity_.emplace(header->capacity, std::prev(waiting_.end()));
    } catch (const std::bad_alloc&) {
      waiting_.pop_back();
      return false;
    }
    kept_ += header->capacity;
    return true;
  }

  std::mutex mutex_;
  Blocks waiting_;  // the oldest first
  std::multimap<std::size_t, Blocks::iterator> by_capacity_;
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
  std::size_t kept_ = 0;
};

// Never destroyed: arrays may outlive the end of main. A fork in the middle of the first call waits for it (below).
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

#if defined(__unix__) || defined(__APPLE__)
// A fork waits until no thread is inside: the child would wait forever for one that it has not.
[[maybe_unused]] const int registered =
    pthread_atfork([] { pool().lock(); }, [] { pool().unlock(); }, [] { pool().unlock(); });
#endif

}  // namespace

void* take_block(std::size_t bytes, Lifetime lifetime) {
  const std::size_t capacity = rounded(bytes);
  if (capacity < bytes) throw std::bad_alloc();
  const bool pooled = lifetime == Lifetime::kBatch && capacity >= kPooled;
  Header* const header = pooled ? pool().take(capacity) : allocate(capacity, false);
  mark_usable(header + 1, bytes, header->capacity);
  return header + 1;
}

void give_block(void* block) noexcept {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  mark_usable(block, 0, header->capacity);
  if (header->pooled) {
    pool().give(header);
  } else {
    std::free(header);
  }
}

std::size_t trim_pool() noexcept { return pool().trim(); }

}  // namespace headrace
