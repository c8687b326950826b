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

constexpr std::size_t kRowsAhead = 4;      // rows announced ahead of the copy; hides DRAM latency from 64 byte rows up
constexpr std::size_t kIdsPerTask = 4096;  // enough work that taking a task costs nothing
constexpr std::size_t kMaxPrefetchBytes = 4096;  // beyond a page the hardware prefetcher follows a row by itself

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
  const auto row = [&](std::size_t i) { return source.data + static_cast<std::ptrdiff_t>(ids[i]) * source.row_stride; };
  const std::size_t prefetch_bytes = std::min(source.row_bytes, kMaxPrefetchBytes);
  const auto prefetch = [&](std::size_t i) {
    for (std::size_t offset = 0; offset < prefetch_bytes; offset += kCacheLineBytes) prefetch_read(row(i) + offset);
  };
  const std::size_t num_tasks = num_threads <= 1 ? 1 : (num_ids + kIdsPerTask - 1) / kIdsPerTask;
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t end = part_bound(num_ids, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_ids, num_tasks, task); i < end; ++i) {
      if (i + kRowsAhead < end) prefetch(i + kRowsAhead);
      std::memcpy(out + i * source.row_bytes, row(i), source.row_bytes);
    }
  });
}

template void gather_rows<std::int32_t>(const RowSource&, const std::int32_t*, std::size_t, char*, int);
template void gather_rows<std::int64_t>(const RowSource&, const std::int64_t*, std::size_t, char*, int);

}  // namespace headrace
