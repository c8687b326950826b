#include "layer_hop.hpp"

#include <algorithm>

#include "labor_importance.hpp"
#include "labor_variates.hpp"
#include "ladies.hpp"
#include "unit_interval.hpp"

namespace headrace {
namespace {

template <class Index>
Hop<Index> sample_labor(const HopGraph<Index>& graph, const LayerEdges<Index>& edges, Rule rule, std::uint64_t key,
                        int num_threads, LayerReducer* reducer) {
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
  return keep_edges(
      graph, edges,
      [&](std::size_t row, std::size_t e) { return quotients[edges.source(e)] <= importance.scales[row]; },
      [&](std::size_t row, std::size_t e) {
        return std::max(1.0, importance.inverse[edges.source(e)] / importance.scales[row]);
      },
      num_threads);
}

}  // namespace

template <class Index>
Hop<Index> sample_layer(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst, Rule rule,
                        std::uint64_t key, int num_threads, LayerReducer* reducer) {
  const LayerEdges<Index> edges = layer_edges(graph, frontier, num_dst, num_threads);
  if (rule.kind == Rule::Kind::kLaborImportance) return sample_labor(graph, edges, rule, key, num_threads, reducer);
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
