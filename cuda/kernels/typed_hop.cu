// Twin of ops/native/sampling/typed_hop.cpp: segments of each node and relation, and picks of relations side by side.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// Twin of ops/native/sampling/relations.hpp, as it lies in an array: its destinations are a range of node ids.
struct Relation {
  std::int64_t first_node;
  std::int64_t end_node;
  std::int64_t first_row;  // of `first_node`
  std::int64_t stride;     // rows of a node

  bool ends_in(std::int64_t node) const { return node >= first_node && node < end_node; }
  std::int64_t row(std::int64_t node) const { return first_row + (node - first_node) * stride; }
};

// As find_segments, of each element and relation: those of element i are segments i * num_relations and behind it, in
// the order of relations. Segments of relations that do not end in a node are empty. `rows` key the draws.
__global__ void find_typed_segments(const std::int64_t* indptr, const std::uint64_t* ranks, std::int64_t num_nodes,
                                    std::int64_t num_edges, const Relation* relations, std::int64_t num_relations,
                                    const std::int64_t* frontier, const std::int64_t* slots, std::int64_t room,
                                    const std::int64_t* count, const std::int64_t* times, const std::int64_t* bounds,
                                    const std::int64_t* lows, std::int64_t* rows, std::int64_t* slots_of_rows,
                                    std::int64_t* starts, std::int64_t* degrees, std::int64_t* faults) {
  const BoundedRows bounded{indptr, {ranks}, num_edges, times, bounds, lows};
  const std::int64_t num_dst = count_of(count, room);
  for_each_item(room * num_relations, [&](std::int64_t s) {
    const std::int64_t i = s / num_relations;
    rows[s] = 0;
    starts[s] = 0;
    degrees[s] = 0;
    if (slots != nullptr) slots_of_rows[s] = slots[i];
    if (i >= num_dst) return;
    const std::int64_t node = frontier[i];
    if (node < 0 || node >= num_nodes) return report(faults, kNoNode, i);
    const Relation relation = relations[s % num_relations];
    if (!relation.ends_in(node)) return;
    rows[s] = relation.row(node);
    bounded.find(rows[s], i, starts + s, degrees + s, faults);
  });
}

// Put the picks of some segments, those of segment s from `first[s]` on, where they are among those of all: from
// places[s] on. Weights are there if `joined_weights` is to be written; picks that have none weigh 1.
__global__ void join_picks(const std::int64_t* first, std::int64_t num_segments, const std::int64_t* positions,
                           const float* weights, const std::int64_t* places, std::int64_t* joined,
                           float* joined_weights) {
  for_each_by_warp(num_segments, [&](std::int64_t s, int lane) {
    const std::int64_t count = first[s + 1] - first[s];
    for (std::int64_t k = lane; k < count; k += kWarp) {
      joined[places[s] + k] = positions[first[s] + k];
      if (joined_weights != nullptr) joined_weights[places[s] + k] = weights == nullptr ? 1.0F : weights[first[s] + k];
    }
  });
}

}  // namespace headrace
