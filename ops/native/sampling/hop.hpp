// One hop: for each element of a frontier pick some of its in-edges. CSC out, no edge list in between.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/edge_views.hpp"
#include "graphs/graph.hpp"
#include "random/variate_keys.hpp"
#include "sampling/frontier.hpp"
#include "sampling/rule.hpp"

namespace headrace {

class LayerReducer;
class ParallelEdges;
template <class Index>
class ExcludedEdges;

// What hops read of a graph: its rows, and views of its edges, any of which may be absent. A rule says whether it reads
// weights; a frontier with bounds reads times. Without `parallel_edges` no row holds a source twice
// (parallel_edges.hpp), so LABOR need not look; where they are known it need not look through rows.
template <class Index>
struct HopGraph {
  CscView<Index> csc;
  EdgeIds edge_ids;
  EdgeWeights weights;
  EdgeTimes times = nullptr;
  bool parallel_edges = true;
  const ParallelEdges* known_parallel_edges = nullptr;
  ExcludedEdges<Index>* excluded = nullptr;  // edges that are not to be picked (excluded.hpp)
};

// The picks of a frontier, or of a chunk of it.
template <class Index>
struct Hop {
  Buffer<std::int64_t> indptr;  // [num_dst + 1]
  Buffer<Index> neighbors;      // [num_edges] global source ids
  Buffer<std::int64_t> edges;   // [num_edges] CSC positions, or what `edge_ids` holds there
  Buffer<float> weights;        // [num_edges] importance weights, or nothing
  bool has_weights = false;
};

// Takes the picks of a frontier, one chunk after the other, while those of later chunks are still being made.
template <class Index>
class HopSink {
 public:
  HopSink() = default;
  HopSink(const HopSink&) = delete;
  HopSink& operator=(const HopSink&) = delete;
  virtual ~HopSink() = default;

  // Picks of so many elements will come, rarely more than `limit` of one. Not called where all come at once.
  virtual void expect(std::size_t num_dst, std::uint64_t limit) = 0;
  virtual void append(const Hop<Index>& chunk) = 0;
  virtual bool wants_edges() const = 0;  // otherwise `edges` may be empty
};

// All that a sampler is asked. The frontier must hold nodes of the graph (check_frontier); it may hold an element twice
// and then repeats its picks. It is read until the last chunk is appended. `keys` has the hop's stream key, and
// where LABOR blends variates a second one; an element in a slot takes its draws under slot_keys(keys, slot).
template <class Index>
struct HopCall {
  const HopGraph<Index>& graph;
  Frontier frontier;
  Rule rule;
  VariateKeys keys;
  int num_threads;
  HopSink<Index>& sink;
  LayerReducer* reducer = nullptr;  // with one, the frontier is a part of that of a layer-wise rule
};

// What comes, taken together, does not depend on num_threads; where it is cut does.
template <class Index>
void sample_hop(const HopCall<Index>& call);

// Throws InputError for the first id outside [0, num_nodes).
void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name);

}  // namespace headrace
