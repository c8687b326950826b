// Twin of ops/native/sampling/segments.hpp, and of what comes behind the picks: the one place that knows of rows and
// bounds.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kNoNode = 0;    // an element of the frontier is no node
constexpr int kNoRow = 2;     // indptr does not bound its row
constexpr int kNoSource = 3;  // a picked edge comes from no node

// Edges of a row at the bound or earlier; times ascend within a row.
inline std::int64_t count_until(const std::int64_t* times, std::int64_t count, std::int64_t bound) {
  std::int64_t first = 0;
  while (first < count) {
    const std::int64_t middle = first + (count - first) / 2;
    if (times[middle] <= bound) {
      first = middle + 1;
    } else {
      count = middle;
    }
  }
  return first;
}

// Edges of a row earlier than the lower bound.
inline std::int64_t count_before(const std::int64_t* times, std::int64_t count, std::int64_t low) {
  std::int64_t first = 0;
  while (first < count) {
    const std::int64_t middle = first + (count - first) / 2;
    if (times[middle] < low) {
      first = middle + 1;
    } else {
      count = middle;
    }
  }
  return first;
}

// The in-edges that each element of the frontier may pick from: degrees[i] of them from CSC position starts[i] on.
// There is room for `room` elements; behind `count` of them, if that is given, all are empty.
__global__ void find_segments(const std::int64_t* indptr, std::int64_t num_nodes, std::int64_t num_edges,
                              const std::int64_t* frontier, std::int64_t room, const std::int64_t* count,
                              const std::int64_t* times, const std::int64_t* bounds, const std::int64_t* lows,
                              std::int64_t* starts, std::int64_t* degrees, std::int64_t* faults) {
  const std::int64_t num_dst = count_of(count, room);
  for_each_item(room, [&](std::int64_t i) {
    starts[i] = 0;
    degrees[i] = 0;
    if (i >= num_dst) return;
    const std::int64_t node = frontier[i];
    if (node < 0 || node >= num_nodes) return report(faults, kNoNode, i);
    const std::int64_t start = indptr[node];
    const std::int64_t stop = indptr[node + 1];
    if (start < 0 || stop < start || stop > num_edges) return report(faults, kNoRow, i);
    const std::int64_t count = bounds == nullptr ? stop - start : count_until(times + start, stop - start, bounds[i]);
    const std::int64_t early = lows == nullptr ? 0 : count_before(times + start, count, lows[i]);
    starts[i] = start + early;
    degrees[i] = count - early;
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
