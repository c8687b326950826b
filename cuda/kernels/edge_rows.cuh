// Twin of ops/native/aggregate/edge_rows.hpp: rows of edges, what every aggregation walks over.
#pragma once

#include <cstdint>

namespace headrace {

// Edges indptr[i] to indptr[i + 1] belong to row i, and edge e leads to row indices[e] of another table.
template <class Index>
struct EdgeRows {
  const std::int64_t* indptr;
  std::int64_t num_rows;
  const Index* indices;
  const Index* positions;  // where each edge stands in arrays of edges; null: edge e at e

  std::int64_t other(std::int64_t edge) const { return static_cast<std::int64_t>(indices[edge]); }
  std::int64_t position(std::int64_t edge) const {
    return positions == nullptr ? edge : static_cast<std::int64_t>(positions[edge]);
  }

  // The row that an edge belongs to: the last one that begins at it or before.
  std::int64_t row_of(std::int64_t edge) const {
    std::int64_t low = 0;
    std::int64_t high = num_rows;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (indptr[middle] <= edge) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Call add(make(edge)) for the edges of a row in their order. What `make` reads of several edges is on its way at
  // once: a row of many edges, which one thread walks over, waits for memory that much less.
  template <class Make, class Add>
  void for_each_edge(std::int64_t row, const Make& make, const Add& add) const {
    constexpr int kAtOnce = 8;
    const std::int64_t last = indptr[row + 1];
    std::int64_t edge = indptr[row];
    for (; edge + kAtOnce <= last; edge += kAtOnce) {
      decltype(make(edge)) made[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) made[k] = make(edge + k);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) add(made[k]);
    }
    for (; edge < last; ++edge) add(make(edge));
  }
};

}  // namespace headrace
