// What every rule by weight asks of a row's weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/edge_views.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// Write the positions of the row's edges of positive weight, and nothing behind them; returns how many there are.
inline std::size_t take_positive(Row row, EdgeWeights weights, std::int64_t* positions) {
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    const std::int64_t position = row.start + static_cast<std::int64_t>(i);
    if (weights[position] > 0.0) positions[count++] = position;
  }
  return count;
}

// Throws InputError for the first weight that is negative, infinite or not a number, and for a row whose sum overflows.
void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads);

}  // namespace headrace
