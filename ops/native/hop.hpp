// One hop: for each frontier vertex pick some of its in-edges. CSC out, no edge list in between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "graph.hpp"
#include "rule.hpp"
#include "weights.hpp"

namespace headrace {

// What hops read of a graph. `edge_ids` and `weights` may be absent.
template <class Index>
struct HopGraph {
  CscView<Index> csc;
  EdgeIds edge_ids;
  EdgeWeights weights;
};

template <class Index>
struct Hop {
  Buffer<std::int64_t> indptr;  // [num_dst + 1]
  Buffer<Index> neighbors;      // [num_edges] global source ids
  Buffer<std::int64_t> edges;   // [num_edges] CSC positions, or what `edge_ids` holds there
  Buffer<float> weights;        // [num_edges] importance weights, or nothing
  bool has_weights = false;
};

// The frontier must hold vertices of the graph (check_frontier); it may hold a vertex twice and then repeats its picks.
// `key` is the hop's stream key. The result does not depend on num_threads.
template <class Index>
Hop<Index> sample_hop(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst, Rule rule,
                      std::uint64_t key, int num_threads);

// Throws ItemsError for the first id outside [0, num_nodes).
void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name);

}  // namespace headrace
