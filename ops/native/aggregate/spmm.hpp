// Sums of messages: the product of a sparse matrix and a dense one, onto what is there already.
#pragma once

#include <cstddef>

#include "aggregate/edge_rows.hpp"

namespace headrace {

template <class Value>
struct SpmmArrays {
  const Value* x;  // [num_others, width], packed
  std::size_t width;
  const Value* weights;  // [num_positions, heads], or null: 1; `width` is a multiple of `heads`
  std::size_t heads;
  Value* out;             // [num_rows, width], packed
  const Value* divisors;  // [num_rows], by which rows are divided in the end, or null
  bool fresh;             // what `out` holds does not count
};

// out[i] = (out[i] + sum of weights[e] * x[indices[e]]) / divisors[i], edge after edge. The transposed rows give the
// backward direction.
template <class Value, class Index>
void spmm(const EdgeRows<Index>& rows, const SpmmArrays<Value>& arrays, int num_threads);

}  // namespace headrace
