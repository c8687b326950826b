// Edge weights, borrowed, in CSC order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph.hpp"

namespace headrace {

// float or double; both null for a graph without weights. Sums and quotients are always taken in double precision.
struct EdgeWeights {
  const float* narrow = nullptr;
  const double* wide = nullptr;

  bool none() const { return narrow == nullptr && wide == nullptr; }
  double operator[](std::int64_t position) const {
    return narrow != nullptr ? static_cast<double>(narrow[position]) : wide[position];
  }
  const void* address(std::int64_t position) const {
    return narrow != nullptr ? static_cast<const void*>(narrow + position) : static_cast<const void*>(wide + position);
  }
};

// Throws GraphError for the first weight that is negative, infinite or not a number, and for a row whose sum overflows.
void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads);

}  // namespace headrace
