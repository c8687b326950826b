// Where the edges of pairs of nodes are: what excluded.hpp asks for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// By row, and by slot where there are slots, those that hold any; see ExcludedRows.
struct FoundEdges {
  Buffer<std::int64_t> rows;       // [num_rows] ascending
  Buffer<std::int64_t> starts;     // [num_rows + 1]
  Buffer<std::int64_t> positions;  // [num_edges] ascending in each row
  Buffer<std::int64_t> slots;      // [num_rows] the tree that each is for, ascending in a row; or nothing
};

// All edges from sources[i] to destinations[i], for each i below `count`, parallel ones included; a pair may have none,
// and may come again. With `slots` [count] pair i is of the tree slots[i], and an edge is told once for each tree that
// has a pair of it. Rows of the destinations are read from end to end, once. Throws InputError for ids that are no
// nodes.
template <class Index>
FoundEdges find_edges(const CscView<Index>& csc, const std::int64_t* sources, const std::int64_t* destinations,
                      const std::int64_t* slots, std::size_t count, int num_threads);

}  // namespace headrace
