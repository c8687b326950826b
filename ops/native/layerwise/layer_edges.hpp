// What layer-wise rules work on: the in-edges of all destinations of a hop together, with their sources numbered.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "sampling/hop.hpp"

namespace headrace {

constexpr std::size_t kLayerRowsPerTask = 256;
constexpr double kLayerEdgeNanoseconds = 3;  // what one thread takes about to look at an edge, more or less once

// Edges of weight 0 are left out: no rule ever picks them, and their sources are no candidates.
template <class Index>
struct LayerEdges {
  Buffer<std::int64_t> offsets;     // [num_dst + 1] where each destination's edges are
  Buffer<std::int64_t> starts;      // [num_dst] CSC position of the first in-edge
  Buffer<std::int64_t> positions;   // [num_edges] CSC positions; empty where rows have no gaps
  Buffer<double> shares;            // [num_edges] P_ts = A_ts / A_*s; empty without weights, where all are 1 / d_s
  Buffer<Index> sources;            // [num_edges] numbers of the candidates
  Buffer<std::int64_t> candidates;  // [num_candidates] global ids, by first occurrence

  bool has_weights = false;
  bool has_gaps = false;  // edges of weight 0 are left out, or excluded ones

  std::size_t num_dst() const { return starts.size(); }
  std::size_t num_candidates() const { return candidates.size(); }
  std::size_t begin(std::size_t row) const { return static_cast<std::size_t>(offsets[row]); }
  std::size_t degree(std::size_t row) const { return static_cast<std::size_t>(offsets[row + 1] - offsets[row]); }
  std::size_t source(std::size_t edge) const { return static_cast<std::size_t>(sources[edge]); }
  std::int64_t position(std::size_t row, std::size_t edge) const {
    return has_gaps ? positions[edge] : starts[row] + static_cast<std::int64_t>(edge - begin(row));
  }
};

// No share is below this, so that its square is a number above 0.
constexpr double kSmallestShare = 0x1p-500;

template <class Index>
LayerEdges<Index> layer_edges(const HopGraph<Index>& graph, const Frontier& frontier, int num_threads);

}  // namespace headrace
