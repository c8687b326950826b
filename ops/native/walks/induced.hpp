// The subgraph on some nodes: all edges that begin and end among them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"

namespace headrace {

template <class Index>
struct Subgraph {
  Buffer<std::int64_t> indptr;     // [num_nodes + 1]
  Buffer<Index> indices;           // [num_edges] places in the list of nodes
  Buffer<std::int64_t> positions;  // [num_edges] CSC positions of the edges
};

// Rows are in the order of `nodes`, edges of a row in CSC order. Throws InputError for a node that is no node of
// the graph or is listed twice. Time and memory follow the nodes and their in-degrees, not the size of the graph.
template <class Index>
Subgraph<Index> induced_subgraph(const CscView<Index>& graph, const std::int64_t* nodes, std::size_t num_nodes,
                                 int num_threads);

}  // namespace headrace
