// Twin of ops/native/sampling/segments.hpp, and of what comes behind the picks: the one place that knows of rows and
// bounds.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// The in-edges that each element of the frontier may pick from: degrees[i] of them from CSC position starts[i] on.
// There is room for `room` elements; behind `count` of them, if that is given, all are empty.
__global__ void find_segments(const std::int64_t* indptr, std::int64_t num_nodes, std::int64_t num_edges,
                              const std::int64_t* frontier, std::int64_t room, const std::int64_t* count,
                              const std::int64_t* times, const std::int64_t* bounds, const std::int64_t* lows,
                              std::int64_t* starts, std::int64_t* degrees, std::int64_t* faults) {
  const BoundedRows rows{indptr, num_edges, times, bounds, lows};
  const std::int64_t num_dst = count_of(count, room);
  for_each_item(room, [&](std::int64_t i) {
    starts[i] = 0;
    degrees[i] = 0;
    if (i >= num_dst) return;
    const std::int64_t node = frontier[i];
    if (node < 0 || node >= num_nodes) return report(faults, kNoNode, i);
    rows.find(node, i, starts + i, degrees + i, faults);
  });
}

// What is at the picked positions. Behind `count` nothing is written. Without `faults` sources are taken as they are.
template <class Index, class EdgeId>
__global__ void look_up(const Index* indices, std::int64_t num_nodes, const EdgeId* edge_ids,
                        const std::int64_t* positions, std::int64_t room, const std::int64_t* count, Index* neighbors,
                        std::int64_t* edges, std::int64_t* faults) {
  for_each_item(count_of(count, room), [&](std::int64_t e) {
    const std::int64_t position = positions[e];
    const Index source = indices[position];
    if (faults != nullptr && (source < 0 || static_cast<std::int64_t>(source) >= num_nodes)) {
      neighbors[e] = 0;
      return report(faults, kNoSource, e);
    }
    neighbors[e] = source;
    if (edges != nullptr) edges[e] = edge_ids == nullptr ? position : static_cast<std::int64_t>(edge_ids[position]);
  });
}

}  // namespace headrace
