#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/reducer.hpp"
#include "bindings/views.hpp"
#include "layerwise/labor_importance.hpp"
#include "layerwise/ladies.hpp"
#include "layerwise/layer_edges.hpp"

namespace headrace {
namespace {

template <class Index>
LayerEdges<Index> edges_of(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                           const InArray<std::int64_t>& frontier, const AnyWeights& weights, int num_threads,
                           const char* name) {
  const HopGraph<Index> graph = view(indptr, indices, {}, weights);
  check_frontier(frontier.data(), frontier.shape(0), graph.csc.num_nodes, name);
  return layer_edges(graph, {frontier.data(), frontier.shape(0)}, num_threads);
}

template <class Index>
nb::tuple labor(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                const InArray<std::int64_t>& frontier, std::int64_t fanout, std::int64_t rounds,
                const AnyWeights& weights, int num_threads, nb::object reducer) {
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  LayerEdges<Index> edges;
  LaborImportance importance;
  unlocked([&] {
    edges = edges_of(indptr, indices, frontier, weights, num_threads, "labor_importance: frontier");
    const Rule rule = rule_of(Rule::Kind::kLaborImportance, fanout, rounds);
    importance = solve_labor_importance(edges, rule.limit(), rounds, true, num_threads, parts.get());
  });
  return nb::make_tuple(to_numpy(std::move(edges.candidates)), to_numpy(std::move(importance.inverse)),
                        to_numpy(std::move(importance.scales)), importance.expected_sizes);
}

template <class Index>
nb::tuple ladies(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                 const InArray<std::int64_t>& frontier, std::int64_t size, bool poisson, std::uint64_t key,
                 const AnyWeights& weights, int num_threads, nb::object reducer) {
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  LayerEdges<Index> edges;
  LadiesDraw draw;
  unlocked([&] {
    edges = edges_of(indptr, indices, frontier, weights, num_threads, "draw_ladies: frontier");
    const Rule rule = rule_of(poisson ? Rule::Kind::kLadiesPoisson : Rule::Kind::kLadies, size);
    draw = draw_ladies(edges, rule.limit(), poisson, key, true, parts.get());
  });
  return arrays(edges.candidates, draw.scores, draw.inverse, draw.drawn);
}

}  // namespace

void bind_layer(nb::module_& m) {
  for_both_widths([&](auto width) {
    using Index = decltype(width);
    m.def("labor_importance", &labor<Index>, "indptr"_array, "indices"_array, "frontier"_array, "fanout"_a, "rounds"_a,
          "weights"_array.none(), "num_threads"_a, "reducer"_a = nb::none());
    m.def("draw_ladies", &ladies<Index>, "indptr"_array, "indices"_array, "frontier"_array, "size"_a, "poisson"_a,
          "key"_a, "weights"_array.none(), "num_threads"_a, "reducer"_a = nb::none());
  });
}

}  // namespace headrace
