#include "features/tiers.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "features/copy_rows.hpp"

namespace headrace {
namespace {

constexpr double kLocateNanoseconds = 5;
constexpr std::size_t kRanksAhead = 16;
constexpr std::uint64_t kMostDevices = 1 << 16;  // more than any machine has; their numbers fit into 32 bits

}  // namespace

template <class Rank, class Id>
void locate_rows(const TierSizes& tiers, std::uint64_t here, const Rank* rank, const Id* ids, std::size_t num_ids,
                 std::int32_t* table, std::int64_t* row, int num_threads) {
  using Unsigned = std::make_unsigned_t<Id>;
  if (tiers.num_devices > kMostDevices) {
    throw InputError("locate_rows: " + std::to_string(tiers.num_devices) + " devices, expected at most " +
                     std::to_string(kMostDevices));
  }
  if (here >= std::max<std::uint64_t>(tiers.num_devices, 1) ||
      (tiers.num_devices == 0 && (tiers.replicated > 0 || tiers.interleaved > 0))) {
    throw InputError("locate_rows: there is no device " + std::to_string(here) + " of " +
                     std::to_string(tiers.num_devices) + " that rows are on");
  }
  const auto outside = [&](std::size_t i) { return static_cast<Unsigned>(ids[i]) >= tiers.num_rows; };
  num_threads = threads_for(num_threads, kLocateNanoseconds * static_cast<double>(num_ids));
  parallel_for_each(num_threads, num_ids, [&](std::size_t i) {
    if (outside(i)) {
      throw InputError("locate_rows: ids[" + std::to_string(i) + "] = " + std::to_string(ids[i]) +
                       " has no row: expected 0 <= id < num_rows = " + std::to_string(tiers.num_rows));
    }
    if (i + kRanksAhead < num_ids && !outside(i + kRanksAhead)) prefetch_read(rank + ids[i + kRanksAhead]);
    std::uint64_t position = static_cast<std::uint64_t>(rank[ids[i]]);
    const auto found = [&](std::uint64_t place, std::uint64_t at) {
      table[i] = static_cast<std::int32_t>(place);
      row[i] = static_cast<std::int64_t>(at);
    };
    if (position < tiers.replicated) return found(here, position);
    position -= tiers.replicated;
    if (position < tiers.interleaved) {
      return found(position % tiers.num_devices, tiers.replicated + position / tiers.num_devices);
    }
    position -= tiers.interleaved;
    if (position < tiers.host) return found(tiers.num_devices, position);
    found(tiers.num_devices + 1, static_cast<std::uint64_t>(ids[i]));
  });
}

void gather_tables(const RowTable* tables, std::size_t num_tables, std::size_t row_bytes, const std::int32_t* table,
                   const std::int64_t* row, std::size_t num_ids, const RowTarget& out, int num_threads) {
  for (std::size_t i = 0; i < num_ids; ++i) {
    const bool known = static_cast<std::uint32_t>(table[i]) < num_tables;
    if (known && static_cast<std::uint64_t>(row[i]) < tables[table[i]].num_rows) continue;
    throw InputError("gather_tables: there is no row " + std::to_string(row[i]) + " in table " +
                     std::to_string(table[i]) + " of " + std::to_string(num_tables));
  }
  if (out.places != nullptr) check_places(out, num_ids);
  if (row_bytes == 0) return;  // nothing to copy, and the tables may have no memory at all
  const auto row_of_source = [=](std::size_t i) {
    return tables[table[i]].data + static_cast<std::size_t>(row[i]) * row_bytes;
  };
  const auto row_of_out = [data = out.data, places = out.places, row_bytes](std::size_t i) {
    return data + (places == nullptr ? i : static_cast<std::size_t>(places[i])) * row_bytes;
  };
  copy_in_tasks(row_bytes, num_ids, num_threads, [&](std::size_t first, std::size_t count) {
    copy_rows<&copy_any>(
        row_bytes, count, [=](std::size_t i) { return row_of_source(first + i); },
        [=](std::size_t i) { return row_of_out(first + i); });
  });
}

template void locate_rows(const TierSizes&, std::uint64_t, const std::int32_t*, const std::int32_t*, std::size_t,
                          std::int32_t*, std::int64_t*, int);
template void locate_rows(const TierSizes&, std::uint64_t, const std::int32_t*, const std::int64_t*, std::size_t,
                          std::int32_t*, std::int64_t*, int);
template void locate_rows(const TierSizes&, std::uint64_t, const std::int64_t*, const std::int32_t*, std::size_t,
                          std::int32_t*, std::int64_t*, int);
template void locate_rows(const TierSizes&, std::uint64_t, const std::int64_t*, const std::int64_t*, std::size_t,
                          std::int32_t*, std::int64_t*, int);

}  // namespace headrace
