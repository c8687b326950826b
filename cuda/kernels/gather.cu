// Twin of ops/native/features/gather.cpp and tiers.cpp. Rows are read where they are: in memory of this device, of
// another one that it can reach, or of the host, which its addresses lead to as well.

#include <cstdint>

#include "copy_row.cuh"
#include "faults.cuh"
#include "grid.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kNoRow = 0;    // an id has no row
constexpr int kNoPlace = 1;  // a place is no row of the output

// Whether any id or place is at fault; without `faults` nobody has looked.
inline bool refused(const std::int64_t* faults, std::int64_t num_ids) {
  return faults != nullptr && (faults[kNoRow] < num_ids || faults[kNoPlace] < num_ids);
}

// out[places[i]] = source[ids[i]], rows of `row_words` words, `stride` apart in the source. Where there are faults
// nothing is written: whoever launches it has check_rows look first.
template <class Id, class Word>
__global__ void gather_rows(const Word* source, std::int64_t stride, const Id* ids, std::int64_t num_ids,
                            std::int64_t row_words, const std::int64_t* places, Word* out, const std::int64_t* faults) {
  if (refused(faults, num_ids)) return;
  for_each_by_warp(num_ids, [&](std::int64_t i, int lane) {
    const std::int64_t place = places == nullptr ? i : places[i];
    copy_row(source + static_cast<std::int64_t>(ids[i]) * stride, out + place * row_words, row_words, lane);
  });
}

// The same for rows so short that a warp copies several: a thread for each word.
template <class Id, class Word>
__global__ void gather_short_rows(const Word* source, std::int64_t stride, const Id* ids, std::int64_t num_ids,
                                  std::int64_t row_words, const std::int64_t* places, Word* out,
                                  const std::int64_t* faults) {
  if (refused(faults, num_ids)) return;
  for_each_item(num_ids * row_words, [&](std::int64_t item) {
    const std::int64_t i = item / row_words;
    const std::int64_t word = item % row_words;
    const std::int64_t place = places == nullptr ? i : places[i];
    out[place * row_words + word] = source[static_cast<std::int64_t>(ids[i]) * stride + word];
  });
}

template <class Id>
__global__ void check_rows(const Id* ids, std::int64_t num_ids, std::int64_t num_rows, const std::int64_t* places,
                           std::int64_t num_out, std::int64_t* faults) {
  for_each_item(num_ids, [&](std::int64_t i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (id < 0 || id >= num_rows) report(faults, kNoRow, i);
    if (places != nullptr && (places[i] < 0 || places[i] >= num_out)) report(faults, kNoPlace, i);
  });
}

// out[places[i]] = tables[table[i]][row[i]]: one launch, wherever the tables are.
template <class Word>
__global__ void gather_tables(const Word* const* tables, const std::int32_t* table, const std::int64_t* row,
                              std::int64_t num_ids, std::int64_t row_words, const std::int64_t* places, Word* out,
                              const std::int64_t* faults) {
  if (refused(faults, num_ids)) return;
  for_each_by_warp(num_ids, [&](std::int64_t i, int lane) {
    const std::int64_t place = places == nullptr ? i : places[i];
    copy_row(tables[table[i]] + row[i] * row_words, out + place * row_words, row_words, lane);
  });
}

__global__ void check_tables(const std::int64_t* table_rows, std::int64_t num_tables, const std::int32_t* table,
                             const std::int64_t* row, std::int64_t num_ids, const std::int64_t* places,
                             std::int64_t num_out, std::int64_t* faults) {
  for_each_item(num_ids, [&](std::int64_t i) {
    const bool known = table[i] >= 0 && table[i] < num_tables;
    if (!known || row[i] < 0 || row[i] >= table_rows[table[i]]) report(faults, kNoRow, i);
    if (places != nullptr && (places[i] < 0 || places[i] >= num_out)) report(faults, kNoPlace, i);
  });
}

// Where rows are, as ops/features/tiers.py says: hot ones at devices, then the host, then where they came from.
template <class Rank, class Id>
__global__ void locate_rows(const Rank* rank, std::int64_t num_rows, const Id* ids, std::int64_t num_ids,
                            std::int64_t replicated, std::int64_t interleaved, std::int64_t num_devices,
                            std::int64_t host, std::int64_t here, std::int32_t* table, std::int64_t* row,
                            std::int64_t* faults) {
  for_each_item(num_ids, [&](std::int64_t i) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    if (id < 0 || id >= num_rows) return report(faults, kNoRow, i);
    auto position = static_cast<std::int64_t>(rank[id]);
    const auto found = [&](std::int64_t place, std::int64_t at) {
      table[i] = static_cast<std::int32_t>(place);
      row[i] = at;
    };
    if (position < replicated) return found(here, position);
    position -= replicated;
    if (position < interleaved) return found(position % num_devices, replicated + position / num_devices);
    position -= interleaved;
    if (position < host) return found(num_devices, position);
    found(num_devices + 1, id);
  });
}

}  // namespace headrace
