#include "fused.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

namespace headrace {
namespace {

template <class Index>
constexpr std::size_t max_local_ids() {
  return std::min<std::size_t>(std::numeric_limits<Index>::max(), std::numeric_limits<std::uint32_t>::max());
}

void append_seeds(const std::int64_t* seeds, std::size_t num_seeds, VertexMap& map, Buffer<std::int64_t>& n_id) {
  n_id.ensure_spare(num_seeds);
  for (std::size_t i = 0; i < num_seeds; ++i) {
    if (i + kPrefetchDistance < num_seeds) map.prefetch(static_cast<std::size_t>(seeds[i + kPrefetchDistance]));
    const auto fresh = static_cast<std::uint32_t>(i);
    if (const std::uint32_t local = map.find_or_insert(static_cast<std::size_t>(seeds[i]), fresh); local != fresh) {
      throw ItemsError("BlockSampler.sample: seeds[" + std::to_string(local) + "] and seeds[" + std::to_string(i) +
                       "] are both " + std::to_string(seeds[i]) +
                       ": expected unique seeds; pass them through unique_and_inverse");
    }
    n_id.push_back(seeds[i]);
  }
}

// Turn global source ids into local ones in place; new vertices go behind n_id in order of first occurrence.
template <class Index>
void renumber(Buffer<Index>& neighbors, std::size_t num_nodes, VertexMap& map, Buffer<std::int64_t>& n_id) {
  using Unsigned = std::make_unsigned_t<Index>;
  const std::size_t num_edges = neighbors.size();
  Unsigned largest = 0;
  for (std::size_t e = 0; e < num_edges; ++e) largest = std::max(largest, static_cast<Unsigned>(neighbors[e]));
  if (num_edges != 0 && largest >= num_nodes) {
    throw GraphError("BlockSampler.sample: indices hold " + std::to_string(static_cast<Index>(largest)) +
                     ", which is not a node id: expected 0 <= id < num_nodes = " + std::to_string(num_nodes) +
                     "; run check_csc on the graph");
  }
  n_id.ensure_spare(std::min(num_edges, num_nodes - n_id.size()));
  for (std::size_t e = 0; e < num_edges; ++e) {
    if (e + kPrefetchDistance < num_edges) map.prefetch(static_cast<std::size_t>(neighbors[e + kPrefetchDistance]));
    const auto vertex = static_cast<std::size_t>(neighbors[e]);
    const std::size_t fresh = n_id.size();
    const std::uint32_t local = map.find_or_insert(vertex, static_cast<std::uint32_t>(fresh));
    neighbors[e] = static_cast<Index>(local);
    if (local != fresh) continue;
    if (fresh >= max_local_ids<Index>()) {
      throw InputError("BlockSampler.sample: one minibatch reaches more than " +
                       std::to_string(max_local_ids<Index>()) +
                       " vertices, more than a local id can number; use smaller batches or fanouts");
    }
    n_id.push_back(static_cast<std::int64_t>(vertex));
  }
}

template <class T>
void extend(Buffer<T>& buffer, const Buffer<T>& tail) {
  if (tail.size() == 0) return;
  buffer.ensure_spare(tail.size());
  std::memcpy(buffer.data() + buffer.size(), tail.data(), tail.size() * sizeof(T));
  buffer.resize(buffer.size() + tail.size());
}

// Put `hop` behind the rows and edges of `block`.
template <class Index>
void append(SampledBlock<Index>& block, Hop<Index>&& hop) {
  if (block.indptr.size() == 0) {
    block.indptr = std::move(hop.indptr);
    block.indices = std::move(hop.neighbors);
    block.edge_ids = std::move(hop.edges);
    block.weights = std::move(hop.weights);
    block.has_weights = hop.has_weights;
    return;
  }
  const std::size_t num_rows = hop.indptr.size() - 1;
  const std::int64_t start = block.indptr[block.indptr.size() - 1];
  block.indptr.ensure_spare(num_rows);
  for (std::size_t i = 1; i <= num_rows; ++i) block.indptr.push_back(start + hop.indptr[i]);
  // Hops of rules that give no weights say nothing about the others' edges: then the shared block has none either.
  block.has_weights &= hop.has_weights;
  extend(block.indices, hop.neighbors);
  extend(block.edge_ids, hop.edges);
  if (block.has_weights) extend(block.weights, hop.weights);
}

}  // namespace

template <class Index>
FusedSampler<Index>::FusedSampler(const HopGraph<Index>& graph, std::uint32_t last_epoch)
    : graph_(graph), last_epoch_(last_epoch) {}

template <class Index>
Sampled<Index> FusedSampler<Index>::sample(const std::int64_t* seeds, std::size_t num_seeds,
                                           const std::vector<HopSpec>& hops, Expand expand, int num_threads) {
  check_frontier(seeds, num_seeds, graph_.csc.num_nodes, "BlockSampler.sample: seeds");
  const HopGraph<Index> graph = graph_for(hops, num_threads);
  std::unique_ptr<VertexMap> map = take_map();  // a call that throws drops its map; the next one gets a new one
  map->clear();
  Sampled<Index> sampled;
  append_seeds(seeds, num_seeds, *map, sampled.n_id);
  sampled.num_nodes.push_back(static_cast<std::int64_t>(num_seeds));
  std::size_t first_dst = 0;
  for (const HopSpec& spec : hops) {
    const std::size_t num_seen = sampled.n_id.size();
    Hop<Index> hop =
        sample_hop(graph, sampled.n_id.data() + first_dst, num_seen - first_dst, spec.rule, spec.key, num_threads);
    renumber(hop.neighbors, graph_.csc.num_nodes, *map, sampled.n_id);
    sampled.num_nodes.push_back(static_cast<std::int64_t>(sampled.n_id.size() - num_seen));
    sampled.num_edges.push_back(static_cast<std::int64_t>(hop.edges.size()));
    if (expand == Expand::kAll || sampled.blocks.empty()) sampled.blocks.emplace_back();
    append(sampled.blocks.back(), std::move(hop));
    sampled.blocks.back().num_src = sampled.n_id.size();
    if (expand == Expand::kNew) first_dst = num_seen;
  }
  give_back(std::move(map));
  return sampled;
}

template <class Index>
HopGraph<Index> FusedSampler<Index>::graph_for(const std::vector<HopSpec>& hops, int num_threads) {
  const auto draws = [](const HopSpec& hop) { return hop.rule.draws_edges(); };
  if (graph_.weights.none() || std::none_of(hops.begin(), hops.end(), draws)) return graph_;
  const CscView<Index>& csc = graph_.csc;
  HopGraph<Index> graph = graph_;
  const std::lock_guard<std::mutex> lock(sums_mutex_);
  if (sums_.size() != csc.num_edges) {
    auto sums = Buffer<double>::long_lived(csc.num_edges);
    sum_rows(csc.indptr, csc.num_nodes, csc.num_edges, graph.weights, sums.data(), num_threads);
    sums_ = std::move(sums);
  }
  graph.weights.sums = sums_.data();
  return graph;
}

template <class Index>
std::unique_ptr<VertexMap> FusedSampler<Index>::take_map() {
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    if (!pool_.empty()) {
      std::unique_ptr<VertexMap> map = std::move(pool_.back());
      pool_.pop_back();
      return map;
    }
  }
  return std::make_unique<VertexMap>(graph_.csc.num_nodes, last_epoch_);
}

template <class Index>
void FusedSampler<Index>::give_back(std::unique_ptr<VertexMap> map) {
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  pool_.push_back(std::move(map));
}

template class FusedSampler<std::int32_t>;
template class FusedSampler<std::int64_t>;

}  // namespace headrace
