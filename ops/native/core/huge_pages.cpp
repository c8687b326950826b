#include "core/huge_pages.hpp"

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#ifdef __linux__
#include <sys/mman.h>
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#endif

namespace headrace {

#ifdef __linux__

namespace {

// The huge pages that lie wholly in the memory.
struct Range {
  std::uintptr_t first;
  std::uintptr_t last;

  Range(const void* memory, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    first = (address + kHugePage - 1) / kHugePage * kHugePage;
    last = (address + bytes) / kHugePage * kHugePage;
  }
};

// Whether any of it is mapped from a file, or nothing is known.
bool may_be_a_file(const Range& range) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return true;
  bool found_file = false;
  char line[512];
  while (!found_file && std::fgets(line, sizeof line, maps) != nullptr) {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint64_t inode;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %*x %*s %" SCNu64, &begin, &end, &inode) != 3) continue;
    found_file = inode != 0 && begin < range.last && end > range.first;
  }
  std::fclose(maps);
  return found_file;
}

}  // namespace

void prefer_huge_pages(void* memory, std::size_t bytes) noexcept {
  const Range range(memory, bytes);
  if (range.first < range.last) {
    madvise(reinterpret_cast<void*>(range.first), range.last - range.first, MADV_HUGEPAGE);
  }
}

std::size_t use_huge_pages(void* memory, std::size_t bytes) {
  const Range range(memory, bytes);
  if (range.first >= range.last || may_be_a_file(range)) return 0;
  prefer_huge_pages(memory, bytes);
  std::size_t in_huge_pages = 0;
  // One by one: where one cannot be had the next one may.
  for (std::uintptr_t page = range.first; page < range.last; page += kHugePage) {
    if (madvise(reinterpret_cast<void*>(page), kHugePage, MADV_COLLAPSE) == 0) in_huge_pages += kHugePage;
  }
  return in_huge_pages;
}

#else

void prefer_huge_pages(void* /*memory*/, std::size_t /*bytes*/) noexcept {}
std::size_t use_huge_pages(void* /*memory*/, std::size_t /*bytes*/) { return 0; }

#endif

}  // namespace headrace
