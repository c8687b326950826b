// Twin of ops/native/sampling/segments.hpp, and of what comes behind the picks: the one place that knows of rows and
// bounds.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// The in-edges that each element of the frontier may pick from: degrees[i] of them from CSC position starts[i] on.
// There is room for `room` elements; behind `count` of them, if that is given, all are empty. With `counts` comes to
// counts[i + 1] how many edges that are, but no more than `most`, and 0 to counts[0].
__global__ void find_segments(const std::int64_t* indptr, const std::uint64_t* ranks, std::int64_t num_nodes,
                              std::int64_t num_edges, const std::int64_t* frontier, std::int64_t room,
                              const std::int64_t* count, const std::int64_t* times, const std::int64_t* bounds,
                              const std::int64_t* lows, std::int64_t most, std::int64_t* starts, std::int64_t* degrees,
                              std::int64_t* counts, std::int64_t* faults) {
  const BoundedRows rows{indptr, {ranks}, num_edges, times, bounds, lows};
  const std::int64_t num_dst = count_of(count, room);
  if (counts != nullptr && thread_of_grid() == 0) counts[0] = 0;
  for_each_item(room, [&](std::int64_t i) {
    std::int64_t start = 0;
    std::int64_t degree = 0;
    if (i < num_dst) {
      const std::int64_t node = frontier[i];
      if (node < 0 || node >= num_nodes) {
        report(faults, kNoNode, i);
      } else {
        rows.find(node, i, &start, &degree, faults);
      }
    }
    starts[i] = start;
    degrees[i] = degree;
    if (counts != nullptr) counts[i + 1] = degree < most ? degree : most;
  });
}

// Rows that begin at starts[0], ..., starts[num_rows], the last of which is how many entries they have: `wanted` is
// told. Where these are more than there is room for, no row has any, nor any edges to pick from.
__global__ void fit_rows(const std::int64_t* starts, const std::int64_t* degrees, std::int64_t num_rows,
                         std::int64_t room, std::int64_t* fitted, std::int64_t* fitted_degrees, std::int64_t* wanted) {
  const std::int64_t size = starts[num_rows];
  const bool fits = size <= room;
  if (thread_of_grid() == 0) *wanted = size;
  for_each_item(num_rows + 1, [&](std::int64_t i) {
    fitted[i] = fits ? starts[i] : 0;
    if (i < num_rows) fitted_degrees[i] = fits ? degrees[i] : 0;
  });
}

// What is at the picked positions. Behind `count` nothing is written.
template <class Index, class EdgeId>
__global__ void look_up(const Index* indices, std::int64_t num_nodes, const EdgeId* edge_ids,
                        const std::int64_t* positions, std::int64_t room, const std::int64_t* count, Index* neighbors,
                        std::int64_t* edges, std::int64_t* faults) {
  const PickedEdges<Index, EdgeId> picked{indices, num_nodes, edge_ids, positions};
  for_each_item(count_of(count, room), [&](std::int64_t e) { picked.look_up(e, neighbors, edges, faults); });
}

}  // namespace headrace
