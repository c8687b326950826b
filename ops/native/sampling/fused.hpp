// The fused sampler of FastSample (arXiv 2311.17847): hop, renumber, hop, renumber in one call, CSC in and CSC out, no
// edge list and no sort. Unlike the paper's listing the seeds come first in n_id, as layers with a self term need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/buffer.hpp"
#include "core/forks.hpp"
#include "sampling/excluded.hpp"
#include "sampling/hop.hpp"
#include "sampling/node_map_pool.hpp"
#include "sampling/parallel_edges.hpp"
#include "sampling/relations.hpp"
#include "sampling/rule.hpp"

namespace headrace {

struct HopSpec {
  std::vector<Rule> rules;  // one for each relation; one where there are no types
  VariateKeys keys;
};

enum class Expand {
  kAll,  // each hop samples for every node seen so far
  kNew,  // each hop samples for the nodes that the hop before discovered; the hops share one CSC
};

template <class Index>
struct SampledBlock {
  Buffer<std::int64_t> indptr;    // [num_dst + 1]
  Buffer<Index> indices;          // [num_edges] local source ids
  Buffer<std::int64_t> edge_ids;  // [num_edges]
  Buffer<float> weights;          // [num_edges] importance weights, or nothing
  bool has_weights = true;
  std::size_t num_src = 0;
};

template <class Index>
struct Sampled {
  Buffer<std::int64_t> n_id;                // [num_src] global ids, seeds first, then by discovery
  std::vector<SampledBlock<Index>> blocks;  // next to the seeds first; one block when Expand::kNew
  Buffer<std::int64_t> slots;               // [num_src] the tree of each node, where there are trees
  std::vector<std::int64_t> num_nodes;      // [num_hops + 1] nodes discovered by each hop, seeds first
  std::vector<std::int64_t> num_edges;      // [num_hops] edges picked by each hop
};

// The trees that seeds grow, each apart from the others: what is reached twice by one tree is one element, by two trees
// two.
struct Trees {
  const std::int64_t* slots;              // [num_seeds] the tree of each seed
  std::size_t num_trees;                  //
  const std::int64_t* streams = nullptr;  // [num_trees] what keys the draws of each (slot_keys), or null for its slot
  const std::int64_t* bounds = nullptr;   // [num_trees] or null
  const std::int64_t* lows = nullptr;     // [num_trees] or null
};

// Samples from one graph, which it borrows. May be called from several threads at once: each call takes a node map
// from a pool, and the pool grows to the number of calls that ever ran together. The first call that draws by weight
// makes the running sums of all rows, two bytes per edge, and keeps them; the first one of LABOR finds the parallel
// edges, and keeps them: 16 bytes each, and 8 for each node where there are any.
template <class Index>
class FusedSampler {
 public:
  // Of a graph with types the rows are those of nodes and `relations`, which are checked; without types there are none
  // of these. `first_number` and `most_slots` are of its node maps.
  FusedSampler(const HopGraph<Index>& graph, std::vector<Relation> relations, std::size_t num_nodes,
               std::uint32_t first_number, std::size_t most_slots);

  // In trees, if there are any: then seeds are distinct within a tree, and slots of excluded edges name trees by what
  // keys their draws.
  Sampled<Index> sample(const std::int64_t* seeds, std::size_t num_seeds, const std::vector<HopSpec>& hops,
                        Expand expand, bool want_edge_ids, int num_threads, const std::optional<ExcludedRows>& excluded,
                        const std::optional<Trees>& trees);

  // Bytes of running sums, of parallel edges, and of the node maps that no call uses now.
  std::size_t scratch_bytes();

 private:
  HopGraph<Index> graph_for(const std::vector<HopSpec>& hops, int num_threads);
  void sample_frontier(const HopGraph<Index>& graph, const Frontier& frontier, const HopSpec& spec, int num_threads,
                       HopSink<Index>& sink) const;

  HopGraph<Index> graph_;
  std::vector<Relation> relations_;
  std::size_t num_nodes_;
  NodeMapPool maps_;
  NodeMapPool element_maps_;
  LazyTable<Buffer<double>> sums_;
  LazyTable<ParallelEdges> parallel_edges_;
};

}  // namespace headrace
