#include "walks/walk.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "sampling/hop.hpp"
#include "walks/induced.hpp"
#include "walks/saint.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

template <class Index>
WalkGraph<Index> walk_graph(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                            const AnyWeights& weights, const MaybeArray<double>& sums) {
  WalkGraph<Index> graph{view(indptr, indices), view(weights)};
  if (sums.has_value() != (weights.index() != 0)) throw nb::type_error("expected weights with their sums, or neither");
  if (!sums) return graph;
  const std::size_t num_edges = indices.shape(0);
  check_length("weights", size(weights), num_edges);
  const std::size_t num_sums = sums_in_graph(num_edges);
  if (sums->shape(0) != num_sums) {
    throw InputError("expected sums to have num_edges // " + std::to_string(kEdgesPerSum) +
                     " + 1 = " + std::to_string(num_sums) + " entries, got " + std::to_string(sums->shape(0)));
  }
  graph.weights.sums = sums->data();
  return graph;
}

template <class Index>
OutArray<std::int64_t> walks(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                             const AnyWeights& weights, const MaybeArray<double>& sums,
                             const InArray<std::int64_t>& starts, const MaybeArray<std::int64_t>& ids,
                             std::size_t length, std::uint64_t restart, std::uint64_t key, int num_threads) {
  const WalkGraph<Index> graph = walk_graph(indptr, indices, weights, sums);
  check_length("ids", ids, starts.shape(0), "start");
  return to_numpy(unlocked([&] {
    check_frontier(starts.data(), starts.shape(0), graph.csc.num_nodes, "random_walk: starts");
    if (length >= std::numeric_limits<std::size_t>::max() / std::max<std::size_t>(starts.shape(0), 1)) {
      throw std::bad_alloc();  // num_starts * (length + 1) would wrap around
    }
    Buffer<std::int64_t> out(starts.shape(0) * (length + 1));
    random_walk(graph, starts.data(), data_or_null(ids), starts.shape(0), {length, restart}, key, out.data(),
                num_threads);
    return out;
  }));
}

template <class Index>
nb::tuple neighbors(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const AnyWeights& weights,
                    const MaybeArray<double>& sums, const InArray<std::int64_t>& frontier, std::size_t num_neighbors,
                    std::size_t num_walks, std::size_t length, std::uint64_t restart, std::uint64_t key,
                    int num_threads) {
  const WalkGraph<Index> graph = walk_graph(indptr, indices, weights, sums);
  Visits<Index> visits = unlocked([&] {
    check_frontier(frontier.data(), frontier.shape(0), graph.csc.num_nodes, "pinsage_neighbors: frontier");
    return pinsage_neighbors(graph, frontier.data(), frontier.shape(0), num_neighbors, num_walks, {length, restart},
                             key, num_threads);
  });
  return arrays(visits.indptr, visits.neighbors, visits.counts);
}

OutArray<double> sums_of_rows(const InArray<std::int64_t>& indptr, const AnyWeights& weights, int num_threads) {
  return to_numpy(unlocked([&] {
    const std::size_t num_edges = size(weights);
    const std::size_t num_nodes = num_nodes_of(indptr);
    check_ends(indptr, num_edges);
    auto sums = Buffer<double>::long_lived(sums_in_graph(num_edges));
    std::fill_n(sums.data(), sums.size(), 0.0);  // an entry where a row begins is never read
    sum_rows(indptr.data(), num_nodes, num_edges, view(weights), sums.data(), num_threads);
    return sums;
  }));
}

template <class Index>
nb::tuple subgraph(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                   const InArray<std::int64_t>& nodes, int num_threads) {
  Subgraph<Index> subgraph =
      unlocked([&] { return induced_subgraph(view(indptr, indices), nodes.data(), nodes.shape(0), num_threads); });
  return arrays(subgraph.indptr, subgraph.indices, subgraph.positions);
}

template <class Index>
OutArray<double> inverse_degrees(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, int power,
                                 bool skip_loops) {
  return to_numpy(unlocked([&] {
    Buffer<double> sums(num_nodes_of(indptr));
    sum_inverse_degrees(view(indptr, indices), power, skip_loops, sums.data());
    return sums;
  }));
}

OutArray<std::int64_t> by_weight(const InArray<double>& sums, std::size_t num_draws, std::uint64_t key,
                                 int num_threads) {
  return to_numpy(unlocked([&] {
    if (sums.shape(0) == 0 && num_draws != 0) throw InputError("draw_by_weight: there is nothing to draw from");
    Buffer<std::int64_t> drawn(num_draws);
    draw_by_weight(sums.data(), sums.shape(0), key, drawn.data(), num_draws, num_threads);
    return drawn;
  }));
}

template <class Index>
OutArray<std::int64_t> edges(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                             const InArray<std::int64_t>& destinations, std::size_t num_draws, std::uint64_t key,
                             int num_threads) {
  return to_numpy(unlocked([&] {
    const CscView<Index> graph = view(indptr, indices);
    check_frontier(destinations.data(), destinations.shape(0), graph.num_nodes, "draw_edges: destinations");
    if (destinations.shape(0) == 0 && num_draws != 0) throw InputError("draw_edges: there is nothing to draw from");
    if (num_draws > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
    Buffer<std::int64_t> drawn(2 * num_draws);
    draw_edges(graph, destinations.data(), destinations.shape(0), key, drawn.data(), num_draws, num_threads);
    return drawn;
  }));
}

template <class Index>
OutArray<float> norms(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InArray<double>& touch,
                      const InArray<std::int64_t>& degrees, std::uint64_t num_draws, std::uint64_t num_rows,
                      int num_threads) {
  return to_numpy(unlocked([&] {
    const CscView<Index> subgraph = view(indptr, indices);
    check_ends(indptr, subgraph.num_edges);
    check_length("touch", touch.shape(0), subgraph.num_nodes, "node");
    check_length("degrees", degrees.shape(0), subgraph.num_nodes, "node");
    Buffer<float> weights(subgraph.num_edges);
    saint_weights(subgraph, {touch.data(), degrees.data(), num_draws, num_rows}, weights.data(), num_threads);
    return weights;
  }));
}

}  // namespace

void bind_walk(nb::module_& m) {
  m.def("sum_rows", &sums_of_rows, "indptr"_array, "weights"_array, "num_threads"_a);
  m.def("draw_by_weight", &by_weight, "sums"_array, "num_draws"_a, "key"_a, "num_threads"_a);
  for_both_widths([&](auto width) {
    using Index = decltype(width);
    m.def("random_walk", &walks<Index>, "indptr"_array, "indices"_array, "weights"_array.none(), "sums"_array.none(),
          "starts"_array, "ids"_array.none(), "length"_a, "restart"_a, "key"_a, "num_threads"_a);
    m.def("pinsage_neighbors", &neighbors<Index>, "indptr"_array, "indices"_array, "weights"_array.none(),
          "sums"_array.none(), "frontier"_array, "num_neighbors"_a, "num_walks"_a, "length"_a, "restart"_a, "key"_a,
          "num_threads"_a);
    m.def("induced_subgraph", &subgraph<Index>, "indptr"_array, "indices"_array, "nodes"_array, "num_threads"_a);
    m.def("sum_inverse_degrees", &inverse_degrees<Index>, "indptr"_array, "indices"_array, "power"_a, "skip_loops"_a);
    m.def("draw_edges", &edges<Index>, "indptr"_array, "indices"_array, "destinations"_array, "num_draws"_a, "key"_a,
          "num_threads"_a);
    m.def("saint_weights", &norms<Index>, "indptr"_array, "indices"_array, "touch"_array, "degrees"_array,
          "num_draws"_a, "num_rows"_a, "num_threads"_a);
  });
}

}  // namespace headrace
