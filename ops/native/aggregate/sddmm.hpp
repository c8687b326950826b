// A dot product for each edge: the gradient of its weight.
#pragma once

#include <cstddef>
#include <cstdint>

#include "aggregate/edge_rows.hpp"

namespace headrace {

template <class Value>
struct SddmmArrays {
  const Value* a;  // [num_rows, width], packed
  const Value* b;  // [num_others, width], packed
  std::size_t width;
  std::size_t heads;
  const std::int64_t* winners;  // [num_rows, width]: columns that another edge has won do not count; or null
  Value* out;                   // [num_positions, heads]
};

// out[e, h] = the dot product of head h of a[i] and of b[indices[e]], at the positions of the edges.
template <class Value, class Index>
void sddmm(const EdgeRows<Index>& rows, const SddmmArrays<Value>& arrays, int num_threads);

}  // namespace headrace
