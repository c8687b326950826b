// Software prefetch: random accesses are prefetched some elements ahead so that cache misses overlap.
#pragma once

#include <algorithm>
#include <cstddef>

namespace headrace {

constexpr std::size_t kPrefetchDistance = 64;
constexpr std::size_t kFarPrefetchDistance = 256;
constexpr std::size_t kCacheLineBytes = 64;

// Written as assembly because GCC does not count __builtin_prefetch as an effect: it drops calls of functions that do
// nothing else, loops and all.
inline void prefetch_read(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 (%0)" : : "r"(address));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, [%0]" : : "r"(address));
#else
  __builtin_prefetch(address, 0, 3);
#endif
}

// Into the second level cache only. A core has room for more misses there than in the first (on Zen 4 rows of 400 bytes
// arrive 1.25 times as fast), and what is prefetched long before its use leaves the first level to what is used now.
inline void prefetch_far(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetcht1 (%0)" : : "r"(address));
#elif defined(__aarch64__)
  asm volatile("prfm pldl2keep, [%0]" : : "r"(address));
#else
  __builtin_prefetch(address, 0, 2);
#endif
}

inline void prefetch_write(const void* address) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 (%0)" : : "r"(address));
#elif defined(__aarch64__)
  asm volatile("prfm pstl1keep, [%0]" : : "r"(address));
#else
  __builtin_prefetch(address, 1, 3);
#endif
}

// Call visit(i) for every i below `count` in turn, when the next `distance` are prefetched as well, by prefetch(i). The
// first `prefetched` are already, and if these are more, as many stay ahead.
template <class Prefetch, class Visit>
void visit_prefetched(std::size_t count, std::size_t distance, const Prefetch& prefetch, const Visit& visit,
                      std::size_t prefetched = 0) {
  const std::size_t ahead = std::min(count, std::max(distance, prefetched));
  for (std::size_t i = prefetched; i < ahead; ++i) prefetch(i);
  for (std::size_t i = 0; i < count - ahead; ++i) {
    prefetch(i + ahead);
    visit(i);
  }
  for (std::size_t i = count - ahead; i < count; ++i) visit(i);
}

// All cache lines of an array that is not empty.
template <class T>
void prefetch_array(const T* array, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kCacheLineBytes / sizeof(T)) prefetch_read(array + i);
  prefetch_read(array + count - 1);
}

}  // namespace headrace
