#include "layerwise/layer_hop.hpp"

#include <algorithm>

#include "layerwise/labor_importance.hpp"
#include "layerwise/ladies.hpp"
#include "random/labor_variates.hpp"
#include "random/unit_interval.hpp"
#include "sampling/parallel_edges.hpp"
#include "sampling/segments.hpp"

namespace headrace {
namespace {

// r / pi_t of each edge, where parallel edges have variates of their own: `by_source` with those put in.
template <class Index>
Buffer<double> edge_quotients(const HopCall<Index>& call, const LayerEdges<Index>& edges, const Buffer<double>& inverse,
                              const Buffer<double>& by_source) {
  const HopGraph<Index>& graph = call.graph;
  const std::size_t num_dst = edges.num_dst();
  const std::size_t num_tasks = (num_dst + kLayerRowsPerTask - 1) / kLayerRowsPerTask;
  const SegmentFinder<Index> find(graph, call.frontier);
  // Among parallel edges excluded ones do not count.
  const bool excludes = graph.excluded != nullptr;
  const HopGraph<Index> packed_graph = excludes ? graph.excluded->packed_graph(graph) : HopGraph<Index>{};
  Buffer<double> quotients(edges.sources.size());
  parallel_for(call.num_threads, num_tasks, [&](std::size_t task) {
    RowRepeats<Index> finder(graph);
    RowRepeats<Index> packed_finder(packed_graph);
    const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) {
      // Edges of weight 0 are no edges of the layer, but count among the parallel ones.
      const Segment segment = find(i);
      const bool packed = segment.excluded != IdSet::kNone;
      Row row = segment.row;
      Gaps gaps;
      if (packed) {
        gaps = graph.excluded->gaps(segment.excluded, row);
        row = {graph.excluded->packed_start(segment.excluded, row.start), row.degree - gaps.count};
      }
      const Repeats repeats = (packed ? packed_finder : finder).of(segment.node, row);
      for (std::size_t e = edges.begin(i); e < edges.begin(i + 1); ++e) {
        const std::size_t t = edges.source(e);
        const std::int64_t position = edges.position(i, e);
        const std::int64_t place = packed ? row.start + gaps.pack(segment.row.start, position) : position;
        const std::uint32_t number = repeats.number(place);
        quotients[e] = number == 0
                           ? by_source[t]
                           : unit_interval(edge_variate(call.keys, graph.csc.indices, position, number)) * inverse[t];
      }
    }
  });
  return quotients;
}

}  // namespace

template <class Index>
void sample_labor_importance(const HopCall<Index>& call) {
  const LayerEdges<Index> edges = layer_edges(call.graph, call.frontier, call.num_threads);
  const LaborImportance importance =
      solve_labor_importance(edges, call.rule.limit(), call.rule.rounds, false, call.num_threads, call.reducer);
  // r_t <= c_s * pi_t as r_t / pi_t <= c_s: one number per source, one comparison per edge.
  const std::size_t num_candidates = edges.num_candidates();
  Buffer<std::uint64_t> variates(num_candidates);
  labor_variates(call.keys, edges.candidates.data(), num_candidates, variates.data());
  Buffer<double> quotients(num_candidates);
  for (std::size_t t = 0; t < num_candidates; ++t) {
    quotients[t] = unit_interval(variates[t]) * importance.inverse[t];
  }
  const auto inverse = [&](std::size_t row, std::size_t e) {
    return std::max(1.0, importance.inverse[edges.source(e)] / importance.scales[row]);
  };
  const auto append = [&](const auto& quotient) {
    const auto keeps = [&](std::size_t row, std::size_t e) { return quotient(e) <= importance.scales[row]; };
    call.sink.append(keep_edges(call.graph, edges, keeps, inverse, call.num_threads));
  };
  if (!call.graph.parallel_edges) return append([&](std::size_t e) { return quotients[edges.source(e)]; });
  const Buffer<double> by_edge = edge_quotients(call, edges, importance.inverse, quotients);
  append([&](std::size_t e) { return by_edge[e]; });
}

template <class Index>
void sample_ladies(const HopCall<Index>& call) {
  const LayerEdges<Index> edges = layer_edges(call.graph, call.frontier, call.num_threads);
  const bool poisson = call.rule.kind == Rule::Kind::kLadiesPoisson;
  const LadiesDraw draw = draw_ladies(edges, call.rule.limit(), poisson, call.keys.key, false, call.reducer);
  call.sink.append(keep_edges(
      call.graph, edges, [&](std::size_t /*row*/, std::size_t e) { return draw.drawn[edges.source(e)]; },
      [&](std::size_t /*row*/, std::size_t e) { return draw.inverse[edges.source(e)]; }, call.num_threads));
}

template void sample_labor_importance<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_labor_importance<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_ladies<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_ladies<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
