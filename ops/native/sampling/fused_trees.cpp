// The fused sampler where seeds grow trees: as fused.cpp, with elements (node, slot) in the place of nodes.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/id_range.hpp"
#include "sampling/block_sink.hpp"
#include "sampling/excluded.hpp"
#include "sampling/fused.hpp"

namespace headrace {
namespace {

[[noreturn]] void refuse_elements() {
  throw InputError("BlockSampler.sample_trees: one minibatch reaches more than " +
                   std::to_string(NodeMap::kMostLocalIds) +
                   " nodes, those of two trees counted twice, more than a local id can number; use smaller batches or "
                   "fanouts");
}

// An element as one number: its slot above its node.
class ElementKeys {
 public:
  ElementKeys(std::size_t num_nodes, std::size_t num_trees) {
    while (std::uint64_t{1} << bits_ < num_nodes) ++bits_;
    if (num_trees > std::uint64_t{1} << (63 - bits_)) {
      throw InputError("BlockSampler.sample_trees: " + std::to_string(num_trees) + " trees of a graph of " +
                       std::to_string(num_nodes) + " nodes are more than 63 bits can tell apart; use smaller batches");
    }
  }

  std::int64_t of(std::int64_t node, std::int64_t slot) const { return slot << bits_ | node; }
  std::int64_t node(std::int64_t key) const { return key & ((std::int64_t{1} << bits_) - 1); }
  std::int64_t slot(std::int64_t key) const { return key >> bits_; }

 private:
  unsigned bits_ = 0;
};

// All elements so far, in the order of their local ids.
class Elements {
 public:
  explicit Elements(const Trees& trees) : trees_(trees) {}

  std::size_t size() const { return nodes_.size(); }
  const std::int64_t* slots() const { return slots_.data(); }

  // Take on those that were numbered since.
  void extend(const Buffer<std::int64_t>& numbered, const ElementKeys& keys) {
    const std::size_t first = nodes_.size();
    const std::size_t count = numbered.size();
    nodes_.resize(count);
    slots_.resize(count);
    for (std::size_t i = first; i < count; ++i) {
      nodes_[i] = keys.node(numbered[i]);
      slots_[i] = keys.slot(numbered[i]);
    }
    look_up(trees_.streams, first, streams_);
    look_up(trees_.bounds, first, bounds_);
    look_up(trees_.lows, first, lows_);
  }

  // From `first` on.
  Frontier frontier(std::size_t first) const {
    const auto from = [&](const Buffer<std::int64_t>& values) {
      return values.size() == 0 ? nullptr : values.data() + first;
    };
    return {nodes_.data() + first, nodes_.size() - first, trees_.streams == nullptr ? from(slots_) : from(streams_),
            from(bounds_), from(lows_)};
  }

  Buffer<std::int64_t> take_nodes() { return std::move(nodes_); }
  Buffer<std::int64_t> take_slots() { return std::move(slots_); }

 private:
  // What is known of the trees of elements `first`, ...
  void look_up(const std::int64_t* of_trees, std::size_t first, Buffer<std::int64_t>& of_elements) const {
    if (of_trees == nullptr) return;
    of_elements.resize(slots_.size());
    for (std::size_t i = first; i < slots_.size(); ++i) of_elements[i] = of_trees[slots_[i]];
  }

  Trees trees_;
  Buffer<std::int64_t> nodes_;
  Buffer<std::int64_t> slots_;
  Buffer<std::int64_t> streams_;
  Buffer<std::int64_t> bounds_;
  Buffer<std::int64_t> lows_;
};

// Appends the picks of a hop to a block: a source belongs to the tree of its destination.
template <class Index>
class TreeSink : public BlockSink<Index> {
 public:
  // `slots` are those of the frontier, `numbered` the keys of all elements.
  TreeSink(SampledBlock<Index>& block, std::size_t num_nodes, bool want_edge_ids, const ElementKeys& keys,
           const std::int64_t* slots, NodeMap& map, Buffer<std::int64_t>& numbered)
      : BlockSink<Index>(block, num_nodes, want_edge_ids, "BlockSampler.sample_trees"),
        keys_(keys),
        slots_(slots),
        map_(map),
        numbered_(numbered) {}

  void append(const Hop<Index>& chunk) override {
    const std::size_t num_dst = chunk.indptr.size() - 1;
    const std::size_t num_edges = chunk.neighbors.size();
    const Index* const neighbors = chunk.neighbors.data();
    this->check_sources(neighbors, num_edges);
    make_room(num_dst, num_edges);
    const std::int64_t start = block_.indptr[block_.indptr.size() - 1];
    keys_of_edges_.resize(num_edges);
    for (std::size_t i = 0; i < num_dst; ++i) {
      block_.indptr.push_back(start + chunk.indptr[i + 1]);
      for (std::int64_t e = chunk.indptr[i]; e < chunk.indptr[i + 1]; ++e) {
        keys_of_edges_[e] = keys_.of(static_cast<std::int64_t>(neighbors[e]), slots_[i]);
      }
    }
    slots_ += num_dst;
    local_ids_.resize(num_edges);
    for (std::size_t first = 0; first < num_edges; first += kEdgesPerCheck) {
      number(first, std::min(kEdgesPerCheck, num_edges - first));
    }
    Index* const indices = block_.indices.data() + block_.indices.size();
    for (std::size_t e = 0; e < num_edges; ++e) indices[e] = static_cast<Index>(local_ids_[e]);
    block_.indices.resize(block_.indices.size() + num_edges);
    this->append_edges(chunk);
  }

 private:
  static constexpr std::size_t kEdgesPerCheck = std::size_t{1} << 16;  // between checks that local ids suffice

  // Make room for a chunk and, where it does not fit, for those that follow it too.
  void make_room(std::size_t num_dst, std::size_t num_edges) {
    block_.indptr.ensure_spare(num_dst);
    const std::size_t likely = to_come_.take(num_dst, num_edges);
    if (num_edges > block_.indices.spare()) this->make_room_for_edges(likely);
  }

  void number(std::size_t first, std::size_t count) {
    numbered_.ensure_spare(count + 1);
    numbered_.resize(map_.number(keys_of_edges_.data() + first, count, local_ids_.data() + first, numbered_.data(),
                                 numbered_.size()));
    if (numbered_.size() > NodeMap::kMostLocalIds) refuse_elements();
  }

  using BlockSink<Index>::block_;
  using BlockSink<Index>::to_come_;
  ElementKeys keys_;
  const std::int64_t* slots_;
  NodeMap& map_;
  Buffer<std::int64_t>& numbered_;
  Buffer<std::int64_t> keys_of_edges_;
  Buffer<std::int64_t> local_ids_;
};

// Number the seeds, which are distinct elements.
void number_seeds(const std::int64_t* seeds, std::size_t num_seeds, const Trees& trees, const ElementKeys& keys,
                  NodeMap& map, Buffer<std::int64_t>& numbered) {
  if (num_seeds > NodeMap::kMostLocalIds) refuse_elements();
  const std::size_t foreign = first_out_of_range(trees.slots, 0, num_seeds, trees.num_trees);
  if (foreign != num_seeds) {
    throw ItemsError("BlockSampler.sample_trees: slots[" + std::to_string(foreign) +
                     "] = " + std::to_string(trees.slots[foreign]) + " is no tree: expected 0 <= slot < " +
                     std::to_string(trees.num_trees));
  }
  Buffer<std::int64_t> of_seeds(num_seeds);
  Buffer<std::int64_t> local(num_seeds);
  for (std::size_t i = 0; i < num_seeds; ++i) of_seeds[i] = keys.of(seeds[i], trees.slots[i]);
  numbered.ensure_spare(num_seeds + 1);
  numbered.resize(map.number(of_seeds.data(), num_seeds, local.data(), numbered.data(), 0));
  if (numbered.size() == num_seeds) return;
  std::size_t i = 0;
  while (local[i] == static_cast<std::int64_t>(i)) ++i;
  throw ItemsError("BlockSampler.sample_trees: seeds[" + std::to_string(local[i]) + "] and seeds[" + std::to_string(i) +
                   "] are both " + std::to_string(seeds[i]) + " in slot " + std::to_string(trees.slots[i]) +
                   ": expected seeds that are unique within their trees");
}

}  // namespace

template <class Index>
Sampled<Index> FusedSampler<Index>::sample_trees(const std::int64_t* seeds, std::size_t num_seeds, const Trees& trees,
                                                 const std::vector<HopSpec>& hops, Expand expand, bool want_edge_ids,
                                                 int num_threads, const std::optional<ExcludedRows>& excluded) {
  check_frontier(seeds, num_seeds, num_nodes_, "BlockSampler.sample_trees: seeds");
  HopGraph<Index> graph = graph_for(hops, num_threads);
  if (!want_edge_ids) graph.edge_ids = {};
  std::optional<ExcludedEdges<Index>> excluded_edges;
  if (excluded.has_value()) graph.excluded = &excluded_edges.emplace(graph.csc, *excluded, true);
  const ElementKeys keys(num_nodes_, trees.num_trees);
  std::unique_ptr<NodeMap> map = element_maps_.take();
  Buffer<std::int64_t> numbered;
  number_seeds(seeds, num_seeds, trees, keys, *map, numbered);
  Elements elements(trees);
  elements.extend(numbered, keys);
  Sampled<Index> sampled;
  sampled.num_nodes.push_back(static_cast<std::int64_t>(num_seeds));
  std::size_t first_dst = 0;
  for (const HopSpec& spec : hops) {
    if (expand == Expand::kAll || sampled.blocks.empty()) sampled.blocks.emplace_back();
    SampledBlock<Index>& block = sampled.blocks.back();
    const std::size_t num_seen = elements.size();
    const std::size_t num_edges = block.indices.size();
    TreeSink<Index> sink(block, num_nodes_, want_edge_ids, keys, elements.slots() + first_dst, *map, numbered);
    const Frontier frontier = elements.frontier(first_dst);
    sample_frontier(graph, frontier, spec, num_threads, sink);
    elements.extend(numbered, keys);
    block.num_src = elements.size();
    sampled.num_nodes.push_back(static_cast<std::int64_t>(elements.size() - num_seen));
    sampled.num_edges.push_back(static_cast<std::int64_t>(block.indices.size() - num_edges));
    if (expand == Expand::kNew) first_dst = num_seen;
  }
  map->clear(elements.size());
  element_maps_.give_back(std::move(map));
  sampled.n_id = elements.take_nodes();
  sampled.slots = elements.take_slots();
  return sampled;
}

template Sampled<std::int32_t> FusedSampler<std::int32_t>::sample_trees(const std::int64_t*, std::size_t, const Trees&,
                                                                        const std::vector<HopSpec>&, Expand, bool, int,
                                                                        const std::optional<ExcludedRows>&);
template Sampled<std::int64_t> FusedSampler<std::int64_t>::sample_trees(const std::int64_t*, std::size_t, const Trees&,
                                                                        const std::vector<HopSpec>&, Expand, bool, int,
                                                                        const std::optional<ExcludedRows>&);

}  // namespace headrace
