// Twin of what ops/native/sampling/fused_elements.hpp knows of elements: a node in a tree is one number, the slot of
// the tree above the id of the node, which has `bits`.

#include <cstdint>

#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

inline std::int64_t node_mask(std::int64_t bits) { return (std::int64_t{1} << bits) - 1; }

// The elements that seeds are, the roots of trees. Those of seeds that are no nodes, or in slots that are no trees, are
// reported, and stand for the first element: what is made of them is not right, and reads no memory of others.
__global__ void plant_roots(const std::int64_t* seeds, const std::int64_t* slots, std::int64_t num_seeds,
                            std::int64_t num_nodes, std::int64_t num_trees, std::int64_t bits, std::int64_t* elements,
                            std::int64_t* faults) {
  for_each_item(num_seeds, [&](std::int64_t i) {
    const bool is_node = seeds[i] >= 0 && seeds[i] < num_nodes;
    const bool is_tree = slots[i] >= 0 && slots[i] < num_trees;
    if (!is_node) report(faults, kNoNode, i);
    if (!is_tree) report(faults, kNoTree, i);
    elements[i] = is_node && is_tree ? slots[i] << bits | seeds[i] : 0;
  });
}

// The elements that edges come from: a source belongs to the tree of its destination. Edges of destination i are those
// from first[i] on.
template <class Index>
__global__ void key_sources(const Index* sources, const std::int64_t* first, const std::int64_t* destinations,
                            std::int64_t num_dst, std::int64_t bits, std::int64_t* elements) {
  for_each_by_warp(num_dst, [&](std::int64_t i, int lane) {
    for (std::int64_t e = first[i] + lane; e < first[i + 1]; e += kWarp) {
      elements[e] = (destinations[i] & ~node_mask(bits)) | static_cast<std::int64_t>(sources[e]);
    }
  });
}

// What a hop is to know of elements: nodes, what keys their draws, and bounds, if there are any. Of trees there may be
// streams, in the place of their slots. Behind `count` nothing is written.
__global__ void read_elements(const std::int64_t* elements, std::int64_t room, const std::int64_t* count,
                              std::int64_t bits, const std::int64_t* streams, const std::int64_t* bounds,
                              const std::int64_t* lows, std::int64_t* nodes, std::int64_t* slots,
                              std::int64_t* bounds_here, std::int64_t* lows_here) {
  for_each_item(count_of(count, room), [&](std::int64_t i) {
    const std::int64_t slot = elements[i] >> bits;
    nodes[i] = elements[i] & node_mask(bits);
    slots[i] = streams == nullptr ? slot : streams[slot];
    if (bounds != nullptr) bounds_here[i] = bounds[slot];
    if (lows != nullptr) lows_here[i] = lows[slot];
  });
}

}  // namespace headrace
