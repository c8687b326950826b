// Random walks with restart along in-edges, and the neighbours that PinSAGE takes from them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"
#include "weighted/weights.hpp"

namespace headrace {

// What walks read of a graph. Weights come with their sums; without weights steps are uniform.
template <class Index>
struct WalkGraph {
  CscView<Index> csc;
  EdgeWeights weights;
};

struct WalkLaw {
  std::size_t length;     // steps of one walk
  std::uint64_t restart;  // a step leads back to the start with probability restart / 2^32
};

// The neighbours of each destination: the nodes visited most by its walks, most visits first.
template <class Index>
struct Visits {
  Buffer<std::int64_t> indptr;  // [num_dst + 1]
  Buffer<Index> neighbors;      // [num_neighbors] global ids
  Buffer<std::int64_t> counts;  // [num_neighbors] visits
};

// Walk i fills out[i * (length + 1)] and the `length` entries behind it: the start, then a node per step, -1 from a
// dead end on. It uses the words of stream ids[i], or of stream i when `ids` is null: a word for the restart (none when
// law.restart is 0), then a bounded integer, or the two words of a real variate when steps go by weight. The starts
// must be nodes of the graph (check_frontier). The result does not depend on num_threads.
template <class Index>
void random_walk(const WalkGraph<Index>& graph, const std::int64_t* starts, const std::int64_t* ids,
                 std::size_t num_starts, WalkLaw law, std::uint64_t key, std::int64_t* out, int num_threads);

// `num_walks` walks from every destination, one after the other on the words of the destination's stream. Of the
// nodes they visit, the destination itself excepted, each keeps the `num_neighbors` that were visited most often;
// of those visited equally often the ones that were reached first.
template <class Index>
Visits<Index> pinsage_neighbors(const WalkGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                                std::size_t num_neighbors, std::size_t num_walks, WalkLaw law, std::uint64_t key,
                                int num_threads);

}  // namespace headrace
