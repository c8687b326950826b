#include "graphs/spread.hpp"

#include <optional>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Index>
OutArray<double> sums_of(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                         const InArray<double>& values, int num_threads) {
  Buffer<double> sums;
  {
    const nb::gil_scoped_release release;
    const CscView<Index> graph = view(indptr, indices);
    check_length<InputError>("values", values.shape(0), graph.num_nodes, "node");
    sums = Buffer<double>::long_lived(graph.num_nodes);
    sum_to_sources(graph, values.data(), sums.data(), num_threads);
  }
  return to_numpy(std::move(sums));
}

template <class Index>
OutArray<double> reached_by(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                            const InArray<double>& frontier, const InArray<double>& row_picks,
                            const MaybeArray<float>& edge_picks, const MaybeArray<std::int64_t>& order,
                            int num_threads) {
  Buffer<double> reached;
  {
    const nb::gil_scoped_release release;
    const CscView<Index> graph = view(indptr, indices);
    check_length<InputError>("frontier", frontier.shape(0), graph.num_nodes, "node");
    check_length<InputError>("row_picks", row_picks.shape(0), graph.num_nodes, "node");
    if (edge_picks) check_length<InputError>("edge_picks", edge_picks->shape(0), graph.num_edges);
    if (order) check_length<InputError>("order", order->shape(0), graph.num_nodes, "node");
    reached = Buffer<double>::long_lived(graph.num_nodes);
    if (order) {
      reach_sources_together(graph, frontier.data(), row_picks.data(), order->data(), reached.data(), num_threads);
    } else {
      reach_sources(graph, frontier.data(), row_picks.data(), data_or_null(edge_picks), reached.data(), num_threads);
    }
  }
  return to_numpy(std::move(reached));
}

template <class Index>
void bind_index(nb::module_& m) {
  m.def("sum_to_sources", &sums_of<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "values"_a.noconvert(),
        "num_threads"_a);
  m.def("reach_sources", &reached_by<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "frontier"_a.noconvert(),
        "row_picks"_a.noconvert(), "edge_picks"_a.noconvert().none(), "order"_a.noconvert().none(), "num_threads"_a);
}

}  // namespace

void bind_spread(nb::module_& m) {
  bind_index<std::int32_t>(m);
  bind_index<std::int64_t>(m);
}

}  // namespace headrace
