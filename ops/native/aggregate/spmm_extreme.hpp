// The largest or smallest message of each row, column by column, onto what was found before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aggregate/edge_rows.hpp"

namespace headrace {

template <class Value>
struct ExtremeArrays {
  const Value* x;  // [num_others, width], packed
  std::size_t width;
  const Value* weights;  // [num_positions, heads], or null: 1
  std::size_t heads;
  Value* out;             // [num_rows, width]
  std::int64_t* winners;  // [num_rows, width]: the position of the edge that `out` is from, -1: none so far
  bool largest;           // or the smallest
  bool fresh;             // what `out` and `winners` hold does not count
  bool last;              // columns that have no message become 0
};

// Of messages that are equal, and of those that are NaN, which are before all numbers, that of the lowest position
// wins: so the order in which parts of a row come decides nothing.
template <class Value, class Index>
void spmm_extreme(const EdgeRows<Index>& rows, const ExtremeArrays<Value>& arrays, int num_threads);

template <class Value>
struct WinnerArrays {
  const Value* gradients;       // [num_others, width]: of the aggregated rows
  const std::int64_t* winners;  // [num_others, width]
  std::size_t width;
  const Value* weights;  // [num_positions, heads], or null: 1
  std::size_t heads;
  Value* out;  // [num_rows, width]
  bool fresh;
};

// The backward direction, over transposed rows: out[j] += weights[e] * gradients[i] where edge e from j to i has won.
template <class Value, class Index>
void spmm_winners(const EdgeRows<Index>& rows, const WinnerArrays<Value>& arrays, int num_threads);

}  // namespace headrace
