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

using nb::literals::operator""_a;

template <class Index>
nb::tuple labor(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                const InArray<std::int64_t>& frontier, std::int64_t fanout, std::int64_t rounds, nb::handle weights,
                int num_threads, nb::object reducer) {
  const AnyWeights edge_weights = any_weights(weights);
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  LayerEdges<Index> edges;
  LaborImportance importance;
  {
    const nb::gil_scoped_release release;
    const HopGraph<Index> graph = view(indptr, indices, {}, edge_weights);
    check_frontier(frontier.data(), frontier.shape(0), graph.csc.num_nodes, "labor_importance: frontier");
    edges = layer_edges(graph, {frontier.data(), frontier.shape(0)}, num_threads);
    const Rule rule = rule_of(Rule::Kind::kLaborImportance, fanout, rounds);
    importance = solve_labor_importance(edges, rule.limit(), rounds, true, num_threads, parts.get());
  }
  return nb::make_tuple(to_numpy(std::move(edges.candidates)), to_numpy(std::move(importance.inverse)),
                        to_numpy(std::move(importance.scales)), nb::cast(importance.expected_sizes));
}

template <class Index>
nb::tuple ladies(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                 const InArray<std::int64_t>& frontier, std::int64_t size, bool poisson, std::uint64_t key,
                 nb::handle weights, int num_threads, nb::object reducer) {
  const AnyWeights edge_weights = any_weights(weights);
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  LayerEdges<Index> edges;
  LadiesDraw draw;
  {
    const nb::gil_scoped_release release;
    const HopGraph<Index> graph = view(indptr, indices, {}, edge_weights);
    check_frontier(frontier.data(), frontier.shape(0), graph.csc.num_nodes, "draw_ladies: frontier");
    edges = layer_edges(graph, {frontier.data(), frontier.shape(0)}, num_threads);
    const Rule rule = rule_of(poisson ? Rule::Kind::kLadiesPoisson : Rule::Kind::kLadies, size);
    draw = draw_ladies(edges, rule.limit(), poisson, key, true, parts.get());
  }
  return nb::make_tuple(to_numpy(std::move(edges.candidates)), to_numpy(std::move(draw.scores)),
                        to_numpy(std::move(draw.inverse)), to_numpy(std::move(draw.drawn)));
}

template <class Index>
void bind(nb::module_& m) {
  m.def("labor_importance", &labor<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "frontier"_a.noconvert(),
        "fanout"_a, "rounds"_a, "weights"_a.none(), "num_threads"_a, "reducer"_a.none() = nb::none());
  m.def("draw_ladies", &ladies<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "frontier"_a.noconvert(),
        "size"_a, "poisson"_a, "key"_a, "weights"_a.none(), "num_threads"_a, "reducer"_a.none() = nb::none());
}

}  // namespace

void bind_layer(nb::module_& m) {
  bind<std::int32_t>(m);
  bind<std::int64_t>(m);
}

}  // namespace headrace
