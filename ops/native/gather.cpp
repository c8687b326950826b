#include "gather.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "errors.hpp"
#include "parallel.hpp"
#include "prefetch.hpp"

namespace headrace {
namespace {

constexpr std::size_t kLotBytes = 8192;  // rows are announced in lots of about this size
constexpr std::size_t kLeastRows = 4;
constexpr std::size_t kMostRows = 128;
constexpr std::size_t kMaxPrefetchBytes = 4096;  // beyond a page the hardware prefetcher follows a row by itself
constexpr std::size_t kIdsPerTask = 4096;        // enough work that taking a task costs nothing

// The loop of gather_rows: while a lot of rows is copied the next one is on its way. A prefetch waits for the
// translation of its address; those of a lot come one right after the other, so that their waits overlap. What it
// reads of the source is copied into locals, as reading that anew from memory for every row takes a fifth of the time.
// kRowBytes: the size of all rows, or 0 where it is not known before; a row of one word is copied by one instruction.
template <std::size_t kRowBytes, class Id>
void copy_rows(RowSource source, const Id* ids, std::size_t num_ids, char* out) {
  if constexpr (kRowBytes != 0) source.row_bytes = kRowBytes;
  const std::size_t announced_bytes = std::min(source.row_bytes, kMaxPrefetchBytes);
  const std::size_t lot = std::clamp(kLotBytes / source.row_bytes, kLeastRows, kMostRows);
  const auto row = [=](std::size_t i) { return source.data + static_cast<std::ptrdiff_t>(ids[i]) * source.row_stride; };
  const auto announce = [=](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < std::min(last, num_ids); ++i) {
      const char* line = row(i);
      const char* const end = line + announced_bytes;
      line -= reinterpret_cast<std::uintptr_t>(line) % kCacheLineBytes;  // rows need not begin where a line does
      for (; line < end; line += kCacheLineBytes) prefetch_far(line);
    }
  };
  announce(0, lot);
  for (std::size_t first = 0; first < num_ids; first += lot) {
    announce(first + lot, first + 2 * lot);
    const std::size_t last = std::min(first + lot, num_ids);
    for (std::size_t i = first; i < last; ++i) {
      std::memcpy(out + i * source.row_bytes, row(i), source.row_bytes);
    }
  }
}

template <class Id>
auto copy_rows_of(std::size_t row_bytes) {
  if (row_bytes == 4) return &copy_rows<4, Id>;
  if (row_bytes == 8) return &copy_rows<8, Id>;
  return &copy_rows<0, Id>;
}

}  // namespace

template <class Id>
void gather_rows(const RowSource& source, const Id* ids, std::size_t num_ids, char* out, int num_threads) {
  using Unsigned = std::make_unsigned_t<Id>;
  const auto outside = [&](Id id) { return static_cast<Unsigned>(id) >= source.num_rows; };
  if (const Id* bad = std::find_if(ids, ids + num_ids, outside); bad != ids + num_ids) {
    throw FeatureError("gather_rows: ids[" + std::to_string(bad - ids) + "] = " + std::to_string(*bad) +
                       " has no row: expected 0 <= id < num_rows = " + std::to_string(source.num_rows) +
                       "; the feature may be shorter than the graph");
  }
  if (source.row_bytes == 0) return;  // nothing to copy, and the arrays may have no memory at all
  const std::size_t num_tasks = num_threads <= 1 ? 1 : (num_ids + kIdsPerTask - 1) / kIdsPerTask;
  const auto copy = copy_rows_of<Id>(source.row_bytes);
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t first = part_bound(num_ids, num_tasks, task);
    const std::size_t count = part_bound(num_ids, num_tasks, task + 1) - first;
    copy(source, ids + first, count, out + first * source.row_bytes);
  });
}

template void gather_rows<std::int32_t>(const RowSource&, const std::int32_t*, std::size_t, char*, int);
template void gather_rows<std::int64_t>(const RowSource&, const std::int64_t*, std::size_t, char*, int);

}  // namespace headrace
