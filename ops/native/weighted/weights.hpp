// Edge weights, borrowed, in CSC order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/prefetch.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// float or double; both null for a graph without weights. Sums and quotients are always taken in double precision.
// `sums` are the running sums of all rows (running_sums.hpp), or null.
struct EdgeWeights {
  const float* narrow = nullptr;
  const double* wide = nullptr;
  const double* sums = nullptr;

  bool none() const { return narrow == nullptr && wide == nullptr; }
  double operator[](std::int64_t position) const {
    return narrow != nullptr ? static_cast<double>(narrow[position]) : wide[position];
  }
  const void* address(std::int64_t position) const {
    return narrow != nullptr ? static_cast<const void*>(narrow + position) : static_cast<const void*>(wide + position);
  }
  // Prefetch `count` > 0 of them.
  void announce(std::int64_t position, std::size_t count) const {
    return narrow != nullptr ? prefetch_array(narrow + position, count) : prefetch_array(wide + position, count);
  }
};

// Write the positions of the row's edges of positive weight, and nothing behind them; returns how many there are.
inline std::size_t take_positive(Row row, EdgeWeights weights, std::int64_t* positions) {
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    const std::int64_t position = row.start + static_cast<std::int64_t>(i);
    if (weights[position] > 0.0) positions[count++] = position;
  }
  return count;
}

// Throws GraphError for the first weight that is negative, infinite or not a number, and for a row whose sum overflows.
void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads);

}  // namespace headrace
