#include "layerwise/layer_edges.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "layerwise/ordered_sum.hpp"
#include "sampling/compact.hpp"
#include "sampling/node_map.hpp"
#include "sampling/picker.hpp"
#include "sampling/segments.hpp"
#include "weighted/weights.hpp"

namespace headrace {
namespace {

constexpr std::size_t kNodesPerEdge = 4;

// Call visit(row) for the runs of a segment without excluded edges.
template <class Index, class Visit>
void visit_runs(const HopGraph<Index>& graph, const Segment& segment, const Visit& visit) {
  if (segment.excluded == IdSet::kNone) return visit(segment.row);
  graph.excluded->gaps(segment.excluded, segment.row).visit_runs(segment.row, visit);
}

// The edges of one segment, from `first` on in the arrays of `edges`; where there are weights those of positive weight.
template <class Index>
void fill(const HopGraph<Index>& graph, const Segment& segment, std::size_t first, LayerEdges<Index>& edges) {
  std::int64_t* const positions = edges.positions.data() + first;
  std::size_t count = 0;
  visit_runs(graph, segment, [&](Row run) {
    count +=
        edges.has_weights ? take_positive(run, graph.weights, positions + count) : take_all(run, positions + count);
  });
  for (std::size_t i = 0; i < count; ++i) edges.sources[first + i] = graph.csc.indices[positions[i]];
  if (!edges.has_weights) return;
  double* const shares = edges.shares.data() + first;
  const auto total = ordered_sum<double>(count, [&](std::size_t i) { return graph.weights[positions[i]]; });
  for (std::size_t i = 0; i < count; ++i) {
    shares[i] = std::max(graph.weights[positions[i]] / total, kSmallestShare);
  }
}

// How many those are.
template <class Index>
std::int64_t count_edges(const HopGraph<Index>& graph, const Segment& segment) {
  std::int64_t count = 0;
  visit_runs(graph, segment, [&](Row run) {
    if (graph.weights.none()) {
      count += static_cast<std::int64_t>(run.degree);
      return;
    }
    for (std::uint64_t i = 0; i < run.degree; ++i) {
      count += graph.weights[run.start + static_cast<std::int64_t>(i)] > 0.0 ? 1 : 0;
    }
  });
  return count;
}

// Turn global ids into numbers by first occurrence, in place; returns the ids.
template <class Index>
Buffer<std::int64_t> number_sources(Buffer<Index>& sources, std::size_t num_nodes) {
  using Unsigned = std::make_unsigned_t<Index>;
  const std::size_t num_edges = sources.size();
  Unsigned largest = 0;  // a negative id is a huge unsigned one
  for (std::size_t e = 0; e < num_edges; ++e) largest = std::max(largest, static_cast<Unsigned>(sources[e]));
  if (num_edges != 0 && largest >= num_nodes) {
    throw InputError("indices hold " + std::to_string(static_cast<Index>(largest)) +
                     ", which is not a node id: expected 0 <= id < num_nodes = " + std::to_string(num_nodes) +
                     "; run check_csc on the graph");
  }
  // A place for every node is faster than a hash table, unless clearing them costs more than the edges do.
  if (num_nodes / kNodesPerEdge > num_edges || num_nodes > NodeMap::kMostLocalIds) {
    return compact<Index>(nullptr, 0, sources.data(), num_edges, sources.data());
  }
  NodeMap map(num_nodes, 1, num_nodes, Lifetime::kBatch);
  Buffer<std::int64_t> ids(std::min(num_edges, num_nodes) + 1);
  ids.resize(map.number(sources.data(), num_edges, sources.data(), ids.data(), 0));
  return ids;
}

}  // namespace

template <class Index>
LayerEdges<Index> layer_edges(const HopGraph<Index>& graph, const Frontier& frontier, int num_threads) {
  const std::size_t num_dst = frontier.size;
  const SegmentFinder<Index> segment(graph, frontier);
  LayerEdges<Index> edges;
  edges.has_weights = !graph.weights.none();
  edges.has_gaps = edges.has_weights || graph.excluded != nullptr;
  edges.offsets.resize(num_dst + 1);
  edges.starts.resize(num_dst);
  const std::size_t num_tasks = (num_dst + kLayerRowsPerTask - 1) / kLayerRowsPerTask;
  const double degree =
      static_cast<double>(graph.csc.num_edges) / static_cast<double>(std::max<std::size_t>(graph.csc.num_nodes, 1));
  num_threads = threads_for(num_threads, kLayerEdgeNanoseconds * degree * static_cast<double>(num_dst));
  const auto for_rows = [&](const auto& body) {
    parallel_for(num_threads, num_tasks, [&](std::size_t task) {
      const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
      for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) {
        if (i + kPrefetchDistance < num_dst) segment.prefetch(i + kPrefetchDistance);
        body(i, segment(i));
      }
    });
  };
  edges.offsets[0] = 0;
  for_rows([&](std::size_t i, const Segment& one) {
    edges.starts[i] = one.row.start;
    edges.offsets[i + 1] = count_edges(graph, one);
  });
  for (std::size_t i = 0; i < num_dst; ++i) edges.offsets[i + 1] += edges.offsets[i];
  const auto num_edges = static_cast<std::size_t>(edges.offsets[num_dst]);
  edges.sources.resize(num_edges);
  if (edges.has_gaps) edges.positions.resize(num_edges);
  if (edges.has_weights) edges.shares.resize(num_edges);
  for_rows([&](std::size_t i, const Segment& one) {
    if (edges.has_gaps) return fill(graph, one, edges.begin(i), edges);
    std::copy_n(graph.csc.indices + one.row.start, one.row.degree, edges.sources.data() + edges.begin(i));
  });
  edges.candidates = number_sources(edges.sources, graph.csc.num_nodes);
  return edges;
}

template LayerEdges<std::int32_t> layer_edges<std::int32_t>(const HopGraph<std::int32_t>&, const Frontier&, int);
template LayerEdges<std::int64_t> layer_edges<std::int64_t>(const HopGraph<std::int64_t>&, const Frontier&, int);

}  // namespace headrace
