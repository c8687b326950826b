#include "walks/saint.hpp"

#include <limits>
#include <new>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "sampling/hop.hpp"
#include "walks/induced.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Index>
nb::tuple subgraph(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                   const InArray<std::int64_t>& nodes, int num_threads) {
  Subgraph<Index> subgraph;
  {
    const nb::gil_scoped_release release;
    subgraph = induced_subgraph(view(indptr, indices), nodes.data(), nodes.shape(0), num_threads);
  }
  return nb::make_tuple(to_numpy(std::move(subgraph.indptr)), to_numpy(std::move(subgraph.indices)),
                        to_numpy(std::move(subgraph.positions)));
}

template <class Index>
OutArray<double> inverse_degrees(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, int power,
                                 bool skip_loops) {
  Buffer<double> sums;
  {
    const nb::gil_scoped_release release;
    sums.resize(num_nodes_of(indptr));
    sum_inverse_degrees(view(indptr, indices), power, skip_loops, sums.data());
  }
  return to_numpy(std::move(sums));
}

OutArray<std::int64_t> by_weight(const InArray<double>& sums, std::size_t num_draws, std::uint64_t key,
                                 int num_threads) {
  Buffer<std::int64_t> drawn;
  {
    const nb::gil_scoped_release release;
    if (sums.shape(0) == 0 && num_draws != 0) throw ItemsError("draw_by_weight: there is nothing to draw from");
    drawn.resize(num_draws);
    draw_by_weight(sums.data(), sums.shape(0), key, drawn.data(), num_draws, num_threads);
  }
  return to_numpy(std::move(drawn));
}

template <class Index>
OutArray<std::int64_t> edges(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                             const InArray<std::int64_t>& destinations, std::size_t num_draws, std::uint64_t key,
                             int num_threads) {
  Buffer<std::int64_t> drawn;
  {
    const nb::gil_scoped_release release;
    const CscView<Index> graph = view(indptr, indices);
    check_frontier(destinations.data(), destinations.shape(0), graph.num_nodes, "draw_edges: destinations");
    if (destinations.shape(0) == 0 && num_draws != 0) throw ItemsError("draw_edges: there is nothing to draw from");
    if (num_draws > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
    drawn.resize(2 * num_draws);
    draw_edges(graph, destinations.data(), destinations.shape(0), key, drawn.data(), num_draws, num_threads);
  }
  return to_numpy(std::move(drawn));
}

template <class Index>
OutArray<float> weights(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                        const InArray<double>& touch, const InArray<std::int64_t>& degrees, std::uint64_t num_draws,
                        std::uint64_t num_rows, int num_threads) {
  Buffer<float> weights;
  {
    const nb::gil_scoped_release release;
    const CscView<Index> subgraph = view(indptr, indices);
    check_ends(indptr, subgraph.num_edges);
    check_length("touch", touch.shape(0), subgraph.num_nodes, "node");
    check_length("degrees", degrees.shape(0), subgraph.num_nodes, "node");
    weights.resize(subgraph.num_edges);
    saint_weights(subgraph, {touch.data(), degrees.data(), num_draws, num_rows}, weights.data(), num_threads);
  }
  return to_numpy(std::move(weights));
}

template <class Index>
void bind_index(nb::module_& m) {
  m.def("induced_subgraph", &subgraph<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "nodes"_a.noconvert(),
        "num_threads"_a);
  m.def("sum_inverse_degrees", &inverse_degrees<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "power"_a,
        "skip_loops"_a);
  m.def("draw_edges", &edges<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "destinations"_a.noconvert(),
        "num_draws"_a, "key"_a, "num_threads"_a);
  m.def("saint_weights", &weights<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "touch"_a.noconvert(),
        "degrees"_a.noconvert(), "num_draws"_a, "num_rows"_a, "num_threads"_a);
}

}  // namespace

void bind_saint(nb::module_& m) {
  bind_index<std::int32_t>(m);
  bind_index<std::int64_t>(m);
  m.def("draw_by_weight", &by_weight, "sums"_a.noconvert(), "num_draws"_a, "key"_a, "num_threads"_a);
}

}  // namespace headrace
