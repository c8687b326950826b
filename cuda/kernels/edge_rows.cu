// Twin of check_edge_rows in ops/native/aggregate/edge_rows.cpp: what is wrong with rows of edges, before anything is
// read by them.

#include <cstdint>

#include "edge_rows.cuh"
#include "faults.cuh"
#include "grid.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kWrongEnds = 0;   // indptr does not run from 0 to the number of edges
constexpr int kDecreases = 1;   // indptr[i] > indptr[i + 1]
constexpr int kNoRow = 2;       // an index has no row in the other table
constexpr int kNoPosition = 3;  // a position is none of the arrays of edges

template <class Index>
__global__ void check_edge_rows(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices,
                                const Index* positions, std::int64_t num_edges, std::int64_t num_others,
                                std::int64_t num_positions, std::int64_t* faults) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const auto is_below = [](std::int64_t number, std::int64_t bound) { return number >= 0 && number < bound; };
  for_each_item(num_rows > num_edges ? num_rows : num_edges, [&](std::int64_t i) {
    if (i < num_rows && indptr[i] > indptr[i + 1]) report(faults, kDecreases, i);
    if (i < num_edges && !is_below(rows.other(i), num_others)) report(faults, kNoRow, i);
    if (i < num_edges && positions != nullptr && !is_below(rows.position(i), num_positions)) {
      report(faults, kNoPosition, i);
    }
  });
  if (thread_of_grid() == 0 && (indptr[0] != 0 || indptr[num_rows] != num_edges)) report(faults, kWrongEnds, 0);
}

}  // namespace headrace
