// Large pages for large arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace headrace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Ask for pages of 2 MiB where memory has none yet. A refusal by the system costs nothing but speed.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
#if defined(__linux__)
  if (bytes < 4 * kHugePage) return;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + bytes) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

// Uninitialised memory for std::free, in huge pages when it is some megabytes: with pages of 4 KiB nearly every random
// access to a large graph misses the address cache too.
inline void* allocate_huge(std::size_t bytes) {
  const std::size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* memory = bytes < 4 * kHugePage ? std::malloc(bytes == 0 ? 1 : bytes) : std::aligned_alloc(kHugePage, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  prefer_huge_pages(memory, bytes);
  return memory;
}

}  // namespace headrace
