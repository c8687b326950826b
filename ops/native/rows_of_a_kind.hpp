// Picks by weight, without replacement, of a stretch of rows: those of a kind one right after the other, on machines
// with vectors of AVX-512. From row to row of a frontier the processor guesses wrong what is done next, and throws away
// what it has begun of the rows behind; among rows of a kind it need not guess, and works on several at a time. The
// picks are those of WeightedPicker, which takes the rows that are left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "picker.hpp"
#include "prefetch.hpp"
#include "stream_variates.hpp"
#include "weights.hpp"

namespace headrace {

// Some rows of a stretch, by their numbers.
struct RowNumbers {
  std::uint16_t numbers[kRowsInStretch + 1];  // one more for what `add` writes behind the last
  std::size_t count = 0;

  // Without a branch.
  void add(std::size_t number, bool wanted = true) {
    numbers[count] = static_cast<std::uint16_t>(number);
    count += wanted ? 1 : 0;
  }
};

// A stretch, and where its picks go: those of row i from positions[begins[i]] on.
struct Stretch {
  const Destination* rows;
  const std::int64_t* begins;
  std::int64_t* positions;
};

// Announce what will be read of an array over all edges. One row right after the other: a prefetch waits for the
// translation of its address, and so these waits overlap. As far as a whole vector at least: reading a part of one
// waits for all of it.
template <class T>
void announce_rows(const Stretch& stretch, const RowNumbers& rows, const T* array) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const Row row = stretch.rows[rows.numbers[i]].row;
    prefetch_far_array(array + row.start, std::max<std::size_t>(row.degree, kCacheLineBytes / sizeof(T)));
  }
}

// Rows all of whose edges are picked, of at most sixteen.
void take_rows(const Stretch& stretch, const RowNumbers& rows);

// Rows whose edges race before anything is drawn, of at most kMostRacers. Of a few bits of the variates and in single
// precision it is known between which bounds an edge arrives; rows of which that does not tell who wins are left.
void race_rows(const Stretch& stretch, const RowNumbers& rows, EdgeWeights weights, const StreamKeys& keys,
               std::size_t wanted, RowNumbers& left);

// Rows that are drawn from, of at most 32 edges, at most 64 and at most kMostSharedDegree. Left are those of which the
// draws that are made at once do not suffice, or shares do not tell one of them.
void draw_rows_in_vector(const Stretch& stretch, const RowNumbers& rows, const std::uint16_t* shares,
                         const StreamKeys& keys, std::size_t wanted, RowNumbers& left);
void draw_rows_in_two(const Stretch& stretch, const RowNumbers& rows, const std::uint16_t* shares,
                      const StreamKeys& keys, std::size_t wanted, RowNumbers& left);
void draw_rows_in_many(const Stretch& stretch, const RowNumbers& rows, const std::uint16_t* shares,
                       const StreamKeys& keys, std::size_t wanted, RowNumbers& left);

}  // namespace headrace
