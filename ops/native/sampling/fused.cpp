#include "sampling/fused.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "sampling/block_sink.hpp"
#include "sampling/typed_hop.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 63;  // no array has so many slots: a table keeps them

[[noreturn]] void refuse_size() {
  throw InputError("BlockSampler.sample: one minibatch reaches more than " + std::to_string(NodeMap::kMostLocalIds) +
                   " nodes, more than a local id can number; use smaller batches or fanouts");
}

void append_seeds(const std::int64_t* seeds, std::size_t num_seeds, NodeMap& map, Buffer<std::int64_t>& n_id) {
  if (num_seeds > NodeMap::kMostLocalIds) refuse_size();
  n_id.ensure_spare(num_seeds + 1);
  Buffer<std::int64_t> local(num_seeds);
  n_id.resize(map.number(seeds, num_seeds, local.data(), n_id.data(), 0));
  if (n_id.size() == num_seeds) return;
  std::size_t i = 0;
  while (local[i] == static_cast<std::int64_t>(i)) ++i;
  throw ItemsError("BlockSampler.sample: seeds[" + std::to_string(local[i]) + "] and seeds[" + std::to_string(i) +
                   "] are both " + std::to_string(seeds[i]) +
                   ": expected unique seeds; pass them through unique_and_inverse");
}

constexpr std::size_t kEdgesPerCheck = std::size_t{1} << 20;  // between checks that local ids suffice

// Appends the picks of a hop to a block: sources get local ids, new ones go behind n_id in order of first occurrence.
template <class Index>
class NodeSink : public BlockSink<Index> {
 public:
  NodeSink(SampledBlock<Index>& block, std::size_t num_nodes, bool want_edge_ids, NodeMap& map,
           Buffer<std::int64_t>& n_id)
      : BlockSink<Index>(block, num_nodes, want_edge_ids, "BlockSampler.sample"), map_(map), n_id_(n_id) {}

  void append(const Hop<Index>& chunk) override {
    const std::size_t num_dst = chunk.indptr.size() - 1;
    const std::int64_t start = block_.indptr[block_.indptr.size() - 1];
    block_.indptr.ensure_spare(num_dst);
    for (std::size_t i = 1; i <= num_dst; ++i) block_.indptr.push_back(start + chunk.indptr[i]);
    const std::size_t num_edges = chunk.neighbors.size();
    make_room(num_dst, num_edges);
    for (std::size_t first = 0; first < num_edges; first += kEdgesPerCheck) {
      renumber(chunk.neighbors.data() + first, std::min(kEdgesPerCheck, num_edges - first));
    }
    this->append_edges(chunk);
  }

 private:
  // Make room for a chunk and, where it does not fit, for those that follow it too.
  void make_room(std::size_t num_dst, std::size_t num_edges) {
    const std::size_t likely = to_come_.take(num_dst, num_edges);
    if (num_edges <= block_.indices.spare() && most_fresh(num_edges) <= n_id_.spare()) return;
    this->make_room_for_edges(likely);
    grow_n_id(most_fresh(likely));
  }

  // What the map may write behind n_id.
  std::size_t most_fresh(std::size_t num_edges) const { return std::min(num_edges, num_nodes_ - n_id_.size()) + 1; }

  // The frontier is read from n_id while new ids go behind it: what n_id held before it grew stays until the hop is
  // over.
  void grow_n_id(std::size_t extra) {
    if (extra <= n_id_.spare()) return;
    outgrown_.emplace_back();
    Buffer<std::int64_t> larger;
    larger.ensure_spare(n_id_.size() + std::max(extra, n_id_.size() / 2));
    larger.extend(n_id_);
    outgrown_.back() = std::exchange(n_id_, std::move(larger));
  }

  void renumber(const Index* neighbors, std::size_t num_edges) {
    this->check_sources(neighbors, num_edges);
    std::int64_t* const n_id = n_id_.data();
    Index* const indices = block_.indices.data() + block_.indices.size();
    const std::size_t num_seen = map_.number(neighbors, num_edges, indices, n_id, n_id_.size());
    if (num_seen > NodeMap::kMostLocalIds) refuse_size();
    n_id_.resize(num_seen);
    block_.indices.resize(block_.indices.size() + num_edges);
  }

  using BlockSink<Index>::block_;
  using BlockSink<Index>::num_nodes_;
  using BlockSink<Index>::to_come_;
  NodeMap& map_;
  Buffer<std::int64_t>& n_id_;
  std::vector<Buffer<std::int64_t>> outgrown_;
};

}  // namespace

template <class Index>
FusedSampler<Index>::FusedSampler(const HopGraph<Index>& graph, std::vector<Relation> relations, std::size_t num_nodes,
                                  std::uint32_t first_number, std::size_t most_slots)
    : graph_(graph),
      relations_(std::move(relations)),
      num_nodes_(num_nodes),
      maps_(num_nodes, first_number, most_slots),
      element_maps_(kMostElements, first_number, 0) {}

template <class Index>
std::size_t FusedSampler<Index>::scratch_bytes() {
  const std::lock_guard<std::mutex> lock(tables_mutex_);
  const std::size_t of_parallel_edges = parallel_edges_.has_value() ? parallel_edges_->num_bytes() : 0;
  return sums_.size() * sizeof(double) + of_parallel_edges + maps_.num_bytes() + element_maps_.num_bytes();
}

template <class Index>
Sampled<Index> FusedSampler<Index>::sample(const std::int64_t* seeds, std::size_t num_seeds,
                                           const std::vector<HopSpec>& hops, Expand expand, bool want_edge_ids,
                                           int num_threads, const std::optional<ExcludedRows>& excluded) {
  check_frontier(seeds, num_seeds, num_nodes_, "BlockSampler.sample: seeds");
  HopGraph<Index> graph = graph_for(hops, num_threads);
  if (!want_edge_ids) graph.edge_ids = {};
  std::optional<ExcludedEdges<Index>> excluded_edges;
  if (excluded.has_value()) graph.excluded = &excluded_edges.emplace(graph.csc, *excluded, false);
  std::unique_ptr<NodeMap> map = maps_.take();
  Sampled<Index> sampled;
  append_seeds(seeds, num_seeds, *map, sampled.n_id);
  sampled.num_nodes.push_back(static_cast<std::int64_t>(num_seeds));
  std::size_t first_dst = 0;
  for (const HopSpec& spec : hops) {
    if (expand == Expand::kAll || sampled.blocks.empty()) sampled.blocks.emplace_back();
    SampledBlock<Index>& block = sampled.blocks.back();
    const std::size_t num_seen = sampled.n_id.size();
    const std::size_t num_edges = block.indices.size();
    NodeSink<Index> sink(block, num_nodes_, want_edge_ids, *map, sampled.n_id);
    const Frontier frontier{sampled.n_id.data() + first_dst, num_seen - first_dst};
    sample_frontier(graph, frontier, spec, num_threads, sink);
    block.num_src = sampled.n_id.size();
    sampled.num_nodes.push_back(static_cast<std::int64_t>(sampled.n_id.size() - num_seen));
    sampled.num_edges.push_back(static_cast<std::int64_t>(block.indices.size() - num_edges));
    if (expand == Expand::kNew) first_dst = num_seen;
  }
  map->clear(sampled.n_id.size());
  maps_.give_back(std::move(map));
  return sampled;
}

template <class Index>
void FusedSampler<Index>::sample_frontier(const HopGraph<Index>& graph, const Frontier& frontier, const HopSpec& spec,
                                          int num_threads, HopSink<Index>& sink) const {
  if (relations_.empty()) {
    sample_hop<Index>({graph, frontier, spec.rules.front(), spec.keys, num_threads, sink});
  } else {
    sample_typed_hop<Index>({graph, relations_, frontier, spec.rules, spec.keys, num_threads, sink});
  }
}

template <class Index>
HopGraph<Index> FusedSampler<Index>::graph_for(const std::vector<HopSpec>& hops, int num_threads) {
  const auto any_rule = [&](const auto& is) {
    return std::any_of(hops.begin(), hops.end(),
                       [&](const HopSpec& hop) { return std::any_of(hop.rules.begin(), hop.rules.end(), is); });
  };
  const bool wants_variates = any_rule([](const Rule& rule) { return rule.has_edge_variates(); });
  const bool wants_sums =
      !graph_.weights.none() && any_rule([](const Rule& rule) { return rule.by_weight && rule.draws_edges(); });
  if (!wants_variates && !wants_sums) return graph_;
  const CscView<Index>& csc = graph_.csc;
  HopGraph<Index> graph = graph_;
  const std::lock_guard<std::mutex> lock(tables_mutex_);
  if (wants_variates) {
    if (!parallel_edges_.has_value()) parallel_edges_ = find_parallel_edges(csc, num_threads);
    graph.parallel_edges = parallel_edges_->any();
    graph.known_parallel_edges = &*parallel_edges_;
  }
  if (!wants_sums) return graph;
  const std::size_t num_sums = sums_in_graph(csc.num_edges);
  if (sums_.size() != num_sums) {
    auto sums = Buffer<double>::long_lived(num_sums);
    sum_rows(csc.indptr, csc.num_nodes, csc.num_edges, graph.weights, sums.data(), num_threads);
    sums_ = std::move(sums);
  }
  graph.weights.sums = sums_.data();
  return graph;
}

template class FusedSampler<std::int32_t>;
template class FusedSampler<std::int64_t>;

}  // namespace headrace
