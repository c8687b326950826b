#include "features/scatter.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsAhead = 4;            // as in gather
constexpr std::size_t kMaxPrefetchBytes = 1024;  // the hardware follows longer rows by itself
constexpr double kRowNanoseconds = 10;           // what one thread takes about for a row,
constexpr double kValueNanoseconds = 0.5;        // and for each of its values

}  // namespace

template <class Value, class Id>
void scatter_add_rows(Value* out, std::size_t num_rows, std::size_t width, const Id* ids, std::size_t num_ids,
                      const Value* rows, int num_threads) {
  using Unsigned = std::make_unsigned_t<Id>;
  const auto outside = [&](Id id) { return static_cast<Unsigned>(id) >= num_rows; };
  if (const Id* bad = std::find_if(ids, ids + num_ids, outside); bad != ids + num_ids) {
    throw InputError("scatter_add_rows: ids[" + std::to_string(bad - ids) + "] = " + std::to_string(*bad) +
                     " has no row: expected 0 <= id < num_rows = " + std::to_string(num_rows));
  }
  if (width == 0) return;
  const std::size_t prefetch_bytes = std::min(width * sizeof(Value), kMaxPrefetchBytes);
  const double nanoseconds_per_row = kRowNanoseconds + kValueNanoseconds * static_cast<double>(width);
  num_threads = threads_for(num_threads, nanoseconds_per_row * static_cast<double>(num_ids));
  const auto num_parts = static_cast<std::size_t>(num_threads);
  // Each part reads all ids and takes its own. Owners are spread by a hash, as hubs often are neighbours in number.
  const auto owner = [&](Id id) {
    const std::uint64_t hash = static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>((hash >> 32) * num_parts >> 32);
  };
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    for (std::size_t i = 0; i < num_ids; ++i) {
      if (i + kRowsAhead < num_ids && (num_parts == 1 || owner(ids[i + kRowsAhead]) == part)) {
        const char* const ahead =
            reinterpret_cast<const char*>(out + static_cast<std::size_t>(ids[i + kRowsAhead]) * width);
        for (std::size_t offset = 0; offset < prefetch_bytes; offset += kCacheLineBytes) prefetch_write(ahead + offset);
      }
      if (num_parts > 1 && owner(ids[i]) != part) continue;
      Value* const to = out + static_cast<std::size_t>(ids[i]) * width;
      const Value* const from = rows + i * width;
      for (std::size_t j = 0; j < width; ++j) to[j] += from[j];
    }
  });
}

#define HEADRACE_INSTANTIATE(Value, Id)                                                                             \
  template void scatter_add_rows<Value, Id>(Value*, std::size_t, std::size_t, const Id*, std::size_t, const Value*, \
                                            int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
