#include "sampling/fused.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "core/room.hpp"
#include "sampling/fused_elements.hpp"
#include "sampling/typed_hop.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMostElements = std::size_t{1} << 63;  // no array has so many slots: a table keeps them

// Appends the picks of a hop to a block: sources get local ids, new ones in order of first occurrence.
template <class Index, class Elements>
class BlockSink : public HopSink<Index> {
 public:
  // Of destinations from `first_dst` on.
  BlockSink(SampledBlock<Index>& block, Elements& elements, std::size_t first_dst, std::size_t num_nodes,
            bool want_edge_ids)
      : block_(block), elements_(elements), next_dst_(first_dst), num_nodes_(num_nodes), want_edge_ids_(want_edge_ids) {
    if (block.indptr.size() == 0) block.indptr.push_back(0);
  }

  void expect(std::size_t num_dst, std::uint64_t limit) override {
    block_.indptr.ensure_spare(num_dst);
    to_come_ = RowsToCome(num_dst, limit);
  }

  bool wants_edges() const override { return want_edge_ids_; }

  void append(const Hop<Index>& chunk) override {
    const std::size_t num_dst = chunk.indptr.size() - 1;
    const std::size_t num_edges = chunk.neighbors.size();
    check_sources(chunk.neighbors.data(), num_edges);
    const std::int64_t start = block_.indptr[block_.indptr.size() - 1];
    block_.indptr.ensure_spare(num_dst);
    for (std::size_t i = 1; i <= num_dst; ++i) block_.indptr.push_back(start + chunk.indptr[i]);
    const std::size_t likely = to_come_.take(num_dst, num_edges);
    if (num_edges > block_.indices.spare()) {
      block_.indices.ensure_spare(likely);
      if (want_edge_ids_) block_.edge_ids.ensure_spare(likely);
    }
    elements_.make_room(num_edges, likely);
    elements_.number(chunk, next_dst_, block_.indices.data() + block_.indices.size());
    next_dst_ += num_dst;
    block_.indices.resize(block_.indices.size() + num_edges);
    if (want_edge_ids_) block_.edge_ids.extend(chunk.edges);
    // Hops of rules that give no weights say nothing about the others' edges: then the shared block has none either.
    block_.has_weights &= chunk.has_weights;
    if (block_.has_weights) block_.weights.extend(chunk.weights);
  }

 private:
  void check_sources(const Index* sources, std::size_t count) const {
    const std::size_t foreign = first_out_of_range(sources, 0, count, num_nodes_);
    if (foreign == count) return;
    throw InputError(std::string(Elements::kCaller) + ": indices hold " + std::to_string(sources[foreign]) +
                     ", which is not a node id: expected 0 <= id < num_nodes = " + std::to_string(num_nodes_) +
                     "; run check_csc on the graph");
  }

  SampledBlock<Index>& block_;
  Elements& elements_;
  std::size_t next_dst_;
  const std::size_t num_nodes_;
  const bool want_edge_ids_;
  RowsToCome to_come_;
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
  const Buffer<double>* const sums = sums_.peek();
  const ParallelEdges* const parallel_edges = parallel_edges_.peek();
  const std::size_t of_sums = sums == nullptr ? 0 : sums->size() * sizeof(double);
  const std::size_t of_parallel_edges = parallel_edges == nullptr ? 0 : parallel_edges->num_bytes();
  return of_sums + of_parallel_edges + maps_.num_bytes() + element_maps_.num_bytes();
}

template <class Index>
Sampled<Index> FusedSampler<Index>::sample(const std::int64_t* seeds, std::size_t num_seeds,
                                           const std::vector<HopSpec>& hops, Expand expand, bool want_edge_ids,
                                           int num_threads, const std::optional<ExcludedRows>& excluded,
                                           const std::optional<Trees>& trees) {
  const std::string caller = trees ? TreeElements::kCaller : NodeElements::kCaller;
  check_frontier(seeds, num_seeds, num_nodes_, (caller + ": seeds").c_str());
  HopGraph<Index> graph = graph_for(hops, num_threads);
  if (!want_edge_ids) graph.edge_ids = {};
  std::optional<ExcludedEdges<Index>> excluded_edges;
  if (excluded) graph.excluded = &excluded_edges.emplace(graph.csc, *excluded, trees.has_value());
  NodeMapPool& maps = trees ? element_maps_ : maps_;
  std::unique_ptr<NodeMap> map = maps.take();
  Sampled<Index> sampled;
  sampled.num_nodes.push_back(static_cast<std::int64_t>(num_seeds));
  const auto grow = [&](auto elements) {
    std::size_t first_dst = 0;
    for (const HopSpec& spec : hops) {
      if (expand == Expand::kAll || sampled.blocks.empty()) sampled.blocks.emplace_back();
      SampledBlock<Index>& block = sampled.blocks.back();
      const std::size_t num_seen = elements.size();
      const std::size_t num_edges = block.indices.size();
      BlockSink<Index, decltype(elements)> sink(block, elements, first_dst, num_nodes_, want_edge_ids);
      sample_frontier(graph, elements.frontier(first_dst), spec, num_threads, sink);
      elements.end_hop();
      block.num_src = elements.size();
      sampled.num_nodes.push_back(static_cast<std::int64_t>(elements.size() - num_seen));
      sampled.num_edges.push_back(static_cast<std::int64_t>(block.indices.size() - num_edges));
      if (expand == Expand::kNew) first_dst = num_seen;
    }
    map->clear(elements.size());
    elements.take(sampled);
  };
  if (trees) {
    grow(TreeElements(*map, num_nodes_, *trees, seeds, num_seeds));
  } else {
    grow(NodeElements(*map, num_nodes_, seeds, num_seeds));
  }
  maps.give_back(std::move(map));
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
  const CscView<Index> rows = graph_.csc.rows();
  HopGraph<Index> graph = graph_;
  if (wants_variates) {
    graph.known_parallel_edges = &parallel_edges_.get([&] { return find_parallel_edges(rows, num_threads); });
    graph.parallel_edges = graph.known_parallel_edges->any();
  }
  if (wants_sums) {
    const Buffer<double>& sums = sums_.get([&] {
      auto made = Buffer<double>::long_lived(sums_in_graph(rows.num_edges));
      sum_rows(rows.indptr, rows.num_nodes, rows.num_edges, graph.weights, made.data(), num_threads);
      return made;
    });
    graph.weights.sums = sums.data();
  }
  return graph;
}

template class FusedSampler<std::int32_t>;
template class FusedSampler<std::int64_t>;

}  // namespace headrace
