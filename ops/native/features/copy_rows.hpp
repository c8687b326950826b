// The loop that copies rows from anywhere to anywhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"

namespace headrace {

constexpr std::size_t kChunkBytes = 8192;  // rows are prefetched in chunks of about this size
constexpr std::size_t kLeastRows = 4;
constexpr std::size_t kMostRows = 128;
constexpr std::size_t kMaxPrefetchBytes = 4096;  // beyond a page the hardware prefetcher follows a row by itself
// A task of so many rows, or of fewer that are long, takes some 50 microseconds: starting one costs nothing beside it,
// and the others do not wait long for the last one.
constexpr std::size_t kMostIdsPerTask = 4096;
constexpr std::size_t kBytesPerTask = std::size_t{1} << 18;
constexpr double kRowNanoseconds = 10;     // what one thread takes about for a row,
constexpr double kBytesPerNanosecond = 5;  // and for what it holds

// Ways to copy a row of `bytes` bytes.
using CopyRow = void (*)(char* out, const char* row, std::size_t bytes);

HEADRACE_INLINE void copy_any(char* out, const char* row, std::size_t bytes) { std::memcpy(out, row, bytes); }

// Call use(i, row(i)) for every i from `first` to below `last`: while a chunk of rows is used the next one is on its
// way. A prefetch waits for the translation of its address; those of a chunk come one right after the other, so that
// their waits overlap. What the functions read is best in locals of theirs, as reading it anew from memory for every
// row takes a fifth of the time.
template <class RowOfSource, class Use>
HEADRACE_INLINE void for_each_row_ahead(std::size_t row_bytes, std::size_t first, std::size_t last,
                                        const RowOfSource& row, const Use& use) {
  const std::size_t prefetched_bytes = std::min(row_bytes, kMaxPrefetchBytes);
  const std::size_t chunk = std::clamp(kChunkBytes / row_bytes, kLeastRows, kMostRows);
  const auto prefetch = [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, last); ++i) {
      const char* line = row(i);
      const char* const end_of_row = line + prefetched_bytes;
      line -= reinterpret_cast<std::uintptr_t>(line) % kCacheLineBytes;  // rows need not begin where a line does
      for (; line < end_of_row; line += kCacheLineBytes) prefetch_far(line);
    }
  };
  prefetch(first, first + chunk);
  for (; first < last; first += chunk) {
    prefetch(first + chunk, first + 2 * chunk);
    const std::size_t end = std::min(first + chunk, last);
    for (std::size_t i = first; i < end; ++i) use(i, row(i));
  }
}

// Copy row(i) to row_of_out(i) for every i below `count`.
template <CopyRow kCopy, class RowOfSource, class RowOfOut>
HEADRACE_INLINE void copy_rows(std::size_t row_bytes, std::size_t count, const RowOfSource& row,
                               const RowOfOut& row_of_out) {
  for_each_row_ahead(row_bytes, 0, count, row,
                     [=](std::size_t i, const char* from) { kCopy(row_of_out(i), from, row_bytes); });
}

// Call copy(first, count) for tasks that together are the `count` rows, on as many threads as they are worth.
template <class Copy>
void copy_in_tasks(std::size_t row_bytes, std::size_t count, int num_threads, const Copy& copy) {
  const double nanoseconds_per_row = kRowNanoseconds + static_cast<double>(row_bytes) / kBytesPerNanosecond;
  num_threads = threads_for(num_threads, nanoseconds_per_row * static_cast<double>(count));
  const std::size_t ids_per_task = std::clamp<std::size_t>(kBytesPerTask / row_bytes, 1, kMostIdsPerTask);
  const std::size_t num_tasks = num_threads == 1 ? 1 : (count + ids_per_task - 1) / ids_per_task;
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t first = part_bound(count, num_tasks, task);
    copy(first, part_bound(count, num_tasks, task + 1) - first);
  });
}

}  // namespace headrace
