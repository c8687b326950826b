// Software prefetch: random accesses are announced this many elements ahead so that cache misses overlap.
#pragma once

#include <cstddef>

namespace headrace {

constexpr std::size_t kPrefetchDistance = 16;
constexpr std::size_t kCacheLineBytes = 64;

inline void prefetch_read(const void* address) { __builtin_prefetch(address, 0, 3); }
inline void prefetch_write(const void* address) { __builtin_prefetch(address, 1, 3); }

}  // namespace headrace
