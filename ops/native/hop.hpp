// One hop: for each frontier vertex pick some of its in-edges. CSC out, no edge list in between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "graph.hpp"
#include "rule.hpp"

namespace headrace {

template <class Index>
struct Hop {
  Buffer<std::int64_t> indptr;  // [num_dst + 1]
  Buffer<Index> neighbors;      // [num_edges] global source ids
  Buffer<std::int64_t> edges;   // [num_edges] CSC positions, or what `edge_ids` holds there
};

// The frontier must hold vertices of the graph (check_frontier); it may hold a vertex twice and then repeats its picks.
// `key` is the hop's stream key. The result does not depend on num_threads.
template <class Index>
Hop<Index> sample_hop(const CscView<Index>& graph, EdgeIds edge_ids, const std::int64_t* frontier, std::size_t num_dst,
                      Rule rule, std::uint64_t key, int num_threads);

// Throws ItemsError for the first id outside [0, num_nodes).
void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name);

}  // namespace headrace
