#include "layerwise/layer_hop.hpp"

#include <algorithm>

#include "layerwise/labor_importance.hpp"
#include "layerwise/ladies.hpp"
#include "random/labor_variates.hpp"
#include "random/unit_interval.hpp"
#include "sampling/parallel_edges.hpp"

namespace headrace {
namespace {

// r / pi_t of each edge, where parallel edges have variates of their own: `by_source` with those put in.
template <class Index>
Buffer<double> edge_quotients(const HopGraph<Index>& graph, const std::int64_t* frontier,
                              const LayerEdges<Index>& edges, std::uint64_t key, const Buffer<double>& inverse,
                              const Buffer<double>& by_source, int num_threads) {
  const std::size_t num_dst = edges.num_dst();
  const std::size_t num_tasks = (num_dst + kLayerRowsPerTask - 1) / kLayerRowsPerTask;
  Buffer<double> quotients(edges.sources.size());
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    RowRepeats<Index> finder(graph.csc.indices, true, graph.known_parallel_edges);
    const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) {
      // Edges of weight 0 are no edges of the layer, but count among the parallel ones.
      const Row row = graph.csc.row(frontier[i]);
      const Repeats repeats = finder.of(frontier[i], row);
      for (std::size_t e = edges.begin(i); e < edges.begin(i + 1); ++e) {
        const std::size_t t = edges.source(e);
        const std::int64_t position = edges.position(i, e);
        const std::uint32_t number = repeats.number(position);
        quotients[e] = number == 0 ? by_source[t]
                                   : unit_interval(edge_variate(key, graph.csc.indices, position, number)) * inverse[t];
      }
    }
  });
  return quotients;
}

template <class Index>
Hop<Index> sample_labor(const HopGraph<Index>& graph, const std::int64_t* frontier, const LayerEdges<Index>& edges,
                        Rule rule, std::uint64_t key, int num_threads, LayerReducer* reducer) {
  const LaborImportance importance =
      solve_labor_importance(edges, rule.limit(), rule.rounds, false, num_threads, reducer);
  // r_t <= c_s * pi_t as r_t / pi_t <= c_s: one number per source, one comparison per edge.
  const std::size_t num_candidates = edges.num_candidates();
  Buffer<std::uint64_t> variates(num_candidates);
  labor_variates(key, edges.candidates.data(), num_candidates, variates.data());
  Buffer<double> quotients(num_candidates);
  for (std::size_t t = 0; t < num_candidates; ++t) {
    quotients[t] = unit_interval(variates[t]) * importance.inverse[t];
  }
  const auto inverse = [&](std::size_t row, std::size_t e) {
    return std::max(1.0, importance.inverse[edges.source(e)] / importance.scales[row]);
  };
  if (!graph.parallel_edges) {
    return keep_edges(
        graph, edges,
        [&](std::size_t row, std::size_t e) { return quotients[edges.source(e)] <= importance.scales[row]; }, inverse,
        num_threads);
  }
  const Buffer<double> by_edge =
      edge_quotients(graph, frontier, edges, key, importance.inverse, quotients, num_threads);
  return keep_edges(
      graph, edges, [&](std::size_t row, std::size_t e) { return by_edge[e] <= importance.scales[row]; }, inverse,
      num_threads);
}

}  // namespace

template <class Index>
Hop<Index> sample_layer(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst, Rule rule,
                        std::uint64_t key, int num_threads, LayerReducer* reducer) {
  const LayerEdges<Index> edges = layer_edges(graph, frontier, num_dst, num_threads);
  if (rule.kind == Rule::Kind::kLaborImportance)
    return sample_labor(graph, frontier, edges, rule, key, num_threads, reducer);
  const LadiesDraw draw =
      draw_ladies(edges, rule.limit(), rule.kind == Rule::Kind::kLadiesPoisson, key, false, reducer);
  return keep_edges(
      graph, edges, [&](std::size_t /*row*/, std::size_t e) { return draw.drawn[edges.source(e)]; },
      [&](std::size_t /*row*/, std::size_t e) { return draw.inverse[edges.source(e)]; }, num_threads);
}

template Hop<std::int32_t> sample_layer<std::int32_t>(const HopGraph<std::int32_t>&, const std::int64_t*, std::size_t,
                                                      Rule, std::uint64_t, int, LayerReducer*);
template Hop<std::int64_t> sample_layer<std::int64_t>(const HopGraph<std::int64_t>&, const std::int64_t*, std::size_t,
                                                      Rule, std::uint64_t, int, LayerReducer*);

}  // namespace headrace
