// Edge weights, borrowed, in CSC order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/prefetch.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// float or double; both null for a graph without weights. Sums and quotients are always taken in double precision.
// `sums` and `shares` hold what sum_rows makes of them, with the same `lead`, or are null; `all_positive` is what it
// returns, or false.
struct EdgeWeights {
  const float* narrow = nullptr;
  const double* wide = nullptr;
  const double* sums = nullptr;
  const std::uint16_t* shares = nullptr;
  bool all_positive = false;
  std::size_t lead = 0;  // of parts between sums, over cache lines; see running_sums.hpp

  bool none() const { return narrow == nullptr && wide == nullptr; }
  double operator[](std::int64_t position) const {
    return narrow != nullptr ? static_cast<double>(narrow[position]) : wide[position];
  }
  const void* address(std::int64_t position) const {
    return narrow != nullptr ? static_cast<const void*>(narrow + position) : static_cast<const void*>(wide + position);
  }
  // Announce `count` > 0 of them.
  void announce(std::int64_t position, std::size_t count) const {
    return narrow != nullptr ? prefetch_array(narrow + position, count) : prefetch_array(wide + position, count);
  }
  // How many weights would stand before the first one on its cache line: a `lead` for sums that are never read with a
  // copy of the weights, which may begin elsewhere on its line.
  std::size_t before_on_line() const {
    const std::size_t bytes = reinterpret_cast<std::uintptr_t>(address(0)) % kCacheLineBytes;
    return bytes / (narrow != nullptr ? sizeof *narrow : sizeof *wide);
  }
};

// sums[i] = the weights of the row's first i + 1 edges, added in that order.
inline void sum_row(EdgeWeights weights, Row row, double* sums) {
  double sum = 0.0;
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    sum += weights[row.start + static_cast<std::int64_t>(i)];
    sums[i] = sum;
  }
}

// Those of the running sums that SummedRow (running_sums.hpp) reads: [sums_in_row(row, weights.lead)]. Returns whether
// all weights are positive.
bool sum_parts(EdgeWeights weights, Row row, double* sums);

// The same of all rows: [sums_in_graph(num_edges, weights.lead)]; and, unless `shares` is null, the shares
// (running_shares.hpp) of those that have any, at their CSC positions: [num_edges].
bool sum_rows(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
              double* sums, std::uint16_t* shares, int num_threads);

// Throws GraphError for the first weight that is negative, infinite or not a number, and for a row whose sum overflows.
void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads);

}  // namespace headrace
