// What a partition costs: edges of each part, copies of nodes that it needs, edges between parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

// Beyond this many parts the matrix of edges between them is refused: 2^20 entries.
constexpr std::int64_t kMostPartsOfMatrix = std::int64_t{1} << 10;

// Parts are a grid of rows and columns; edge u -> v is in the row of u's owner and the column of v's. With one row,
// every edge is with the owner of its destination; with one column, with that of its source.
struct PartGrid {
  const std::int32_t* owners;  // [num_nodes] in [0, num_parts)
  std::int64_t num_parts;
  std::int64_t num_columns;  // divides num_parts
};

struct PartCounts {
  std::int64_t* edges;    // [num_parts]
  std::int64_t* copies;   // [num_parts] nodes that the part owns, or that begin or end an edge of it
  std::int64_t* between;  // [num_parts * num_parts] edges by owner of source and of destination; or null
  std::int64_t cut;       // edges between nodes of different owners
};

// Throws InputError for numbers that make no grid, and for owners that are no part of it.
void check_grid(const PartGrid& grid, std::size_t num_nodes);

// Adds to counts that are 0. The grid must have been checked. Needs 8 bytes per node (12 with 64-bit ids) while it
// runs. Throws InputError for damaged rows or ids.
template <class Index>
void count_parts(const CscView<Index>& graph, PartGrid grid, PartCounts& counts);

}  // namespace headrace
