// The rows of a graph with types: where the in-edges of each node and relation begin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/edge_views.hpp"

namespace headrace {

// Node types are ranges of node ids, relations are ranges of edge ids. Offsets rise from 0, those of nodes to the
// number of nodes.
struct NodeAndEdgeTypes {
  const std::int64_t* first_nodes;  // [num_types + 1]
  std::size_t num_types;
  const std::int64_t* first_edges;  // [num_relations + 1]
  std::size_t num_relations;
  const bool* ends;  // [num_types, num_relations], whether a relation may end in a type
};

// A node has a row for each relation that may end in its type, in their order, and at least one. Returns where each row
// begins among the edges, and at the end the number of edges. Throws InputError for an indptr that does not bound rows,
// and for, in this order, an edge id beyond the relations, the first edge that ends in another type than its relation
// may, and rows that are not sorted by relation. `edge_ids` has `num_edges` entries, if it has any.
Buffer<std::int64_t> find_typed_rows(const std::int64_t* indptr, std::size_t num_nodes, EdgeIds edge_ids,
                                     std::size_t num_edges, const NodeAndEdgeTypes& types, int num_threads);

}  // namespace headrace
