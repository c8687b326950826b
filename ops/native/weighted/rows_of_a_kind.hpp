// Picks by weight, without replacement, of a stretch of rows: those of a kind one right after the other, on machines
// with vectors of AVX-512. From row to row of a frontier the processor guesses wrong what is done next, and throws away
// what it has begun of the rows behind; among rows of a kind it need not guess, and works on several at a time. The
// picks are those of WeightedPicker, which takes the rows that are left.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/prefetch.hpp"
#include "random/stream_variates.hpp"
#include "sampling/picker.hpp"
#include "weighted/weights.hpp"

namespace headrace {

struct Destination {
  std::int64_t vertex;
  Row row;
};
constexpr std::size_t kRowsInStretch = 512;

// Some rows of a stretch, by their numbers.
struct RowNumbers {
  std::uint16_t numbers[kRowsInStretch];
  std::size_t count = 0;

  // Without a branch. Each row is added, or not, once.
  void add(std::size_t number, bool wanted = true) {
    numbers[count] = static_cast<std::uint16_t>(number);
    count += wanted ? 1 : 0;
  }
};

// A stretch, and where its picks go: those of row i from positions[begins[i]] on. `wanted` <= 16 of each row, or all
// that it has.
struct Stretch {
  const Destination* rows;
  const std::int64_t* begins;
  std::int64_t* positions;
  std::size_t wanted;
};

// Announce what will be read of an array over all edges. One row right after the other: a prefetch waits for the
// translation of its address, and so these waits overlap. Whole vectors: reading a part of one waits for all of it.
template <class T>
void announce_rows(const Stretch& stretch, const RowNumbers& rows, const T* array) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const Row row = stretch.rows[rows.numbers[i]].row;
    constexpr std::size_t kInVector = kCacheLineBytes / sizeof(T);
    prefetch_far_array(array + row.start, (row.degree + kInVector - 1) / kInVector * kInVector);
  }
}

// Rows all of whose edges are picked.
void take_rows(const Stretch& stretch, const RowNumbers& rows);

// Rows of at most kMostRacers edges, which race before anything is drawn. The upper 32 bits of the variates and single
// precision tell between which bounds an edge arrives; rows of which that does not tell who wins are added to `left`.
void race_rows(const Stretch& stretch, const RowNumbers& rows, const StreamKeys& keys, EdgeWeights weights,
               RowNumbers& left);

// Vectors that hold the shares of a row: one, up to two, or more.
enum class SharesIn { kVector, kTwo, kMany };

// Rows that are drawn from by their shares, with so many edges; of rows in more than two vectors at most fourteen edges
// may be wanted. Those of which the draws that are made at once do not
// suffice, or shares do not tell one of them, are added to `left`.
void draw_rows(const Stretch& stretch, const RowNumbers& rows, const StreamKeys& keys, const std::uint16_t* shares,
               SharesIn vectors, RowNumbers& left);

}  // namespace headrace
