// Rows that lie in several tables: which table has the row of an id, and a gather from all of them at once (Data
// Tiering, arXiv 2111.05894).
#pragma once

#include <cstddef>
#include <cstdint>

#include "features/gather.hpp"

namespace headrace {

// Rows by rank, the hottest first: `replicated` of them at each device, `interleaved` one after the other over the
// devices, `host` in host memory, and the others where they came from.
struct TierSizes {
  std::uint64_t num_rows;
  std::uint64_t replicated;
  std::uint64_t interleaved;
  std::uint64_t num_devices;
  std::uint64_t host;
};

// The places are the devices, then the host, then where the rows came from. table[i] is the place of the row of ids[i],
// as device `here` sees it, and row[i] which row it is there: of those of a device first the replicated ones, where
// rows came from their ids. Throws InputError when an id has no row.
template <class Rank, class Id>
void locate_rows(const TierSizes& tiers, std::uint64_t here, const Rank* rank, const Id* ids, std::size_t num_ids,
                 std::int32_t* table, std::int64_t* row, int num_threads);

struct RowTable {
  const char* data;
  std::size_t num_rows;
};

// out[places[i]] = tables[table[i]][row[i]]. Throws InputError before anything is written when there is no such row
// or place.
void gather_tables(const RowTable* tables, std::size_t num_tables, std::size_t row_bytes, const std::int32_t* table,
                   const std::int64_t* row, std::size_t num_ids, const RowTarget& out, int num_threads);

}  // namespace headrace
