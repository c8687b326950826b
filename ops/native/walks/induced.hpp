// The subgraph on some vertices: all edges that begin and end among them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"

namespace headrace {

template <class Index>
struct Subgraph {
  Buffer<std::int64_t> indptr;     // [num_vertices + 1]
  Buffer<Index> indices;           // [num_edges] places in the list of vertices
  Buffer<std::int64_t> positions;  // [num_edges] CSC positions of the edges
};

// Rows are in the order of `vertices`, edges of a row in CSC order. Throws ItemsError for a vertex that is no node of
// the graph or is listed twice. Time and memory follow the vertices and their in-degrees, not the size of the graph.
template <class Index>
Subgraph<Index> induced_subgraph(const CscView<Index>& graph, const std::int64_t* vertices, std::size_t num_vertices,
                                 int num_threads);

}  // namespace headrace
