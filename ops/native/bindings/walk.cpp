#include "walks/walk.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "sampling/hop.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Index>
WalkGraph<Index> walk_graph(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                            const AnyWeights& weights, nb::handle sums, InArray<double>& keep) {
  WalkGraph<Index> graph{view(indptr, indices), view(weights)};
  if (weights.index() == 0) {
    if (!sums.is_none()) throw nb::type_error("expected no sums without weights");
    return graph;
  }
  const std::size_t num_edges = indices.shape(0);
  check_length("weights", size(weights), num_edges);
  if (!nb::try_cast(sums, keep, false)) {
    throw nb::type_error("expected sums as a contiguous one-dimensional array of float64");
  }
  const std::size_t num_sums = sums_in_graph(num_edges);
  if (keep.shape(0) != num_sums) {
    throw GraphError("expected sums to have num_edges // " + std::to_string(kEdgesPerSum) +
                     " + 1 = " + std::to_string(num_sums) + " entries, got " + std::to_string(keep.shape(0)));
  }
  graph.weights.sums = keep.data();
  return graph;
}

// Null for None.
const std::int64_t* walk_ids(nb::handle ids, InArray<std::int64_t>& keep, std::size_t num_starts) {
  if (ids.is_none()) return nullptr;
  if (!nb::try_cast(ids, keep, false)) {
    throw nb::type_error("expected ids as a contiguous one-dimensional array of int64");
  }
  check_length("ids", keep.shape(0), num_starts, "start");
  return keep.data();
}

template <class Index>
OutArray<std::int64_t> walks(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, nb::handle weights,
                             nb::handle sums, const InArray<std::int64_t>& starts, nb::handle ids, std::size_t length,
                             std::uint64_t restart, std::uint64_t key, int num_threads) {
  const AnyWeights edge_weights = any_weights(weights);
  InArray<double> sums_array;
  InArray<std::int64_t> ids_array;
  const WalkGraph<Index> graph = walk_graph(indptr, indices, edge_weights, sums, sums_array);
  const std::int64_t* const stream_ids = walk_ids(ids, ids_array, starts.shape(0));
  Buffer<std::int64_t> out;
  {
    const nb::gil_scoped_release release;
    check_frontier(starts.data(), starts.shape(0), graph.csc.num_nodes, "random_walk: starts");
    if (length >= std::numeric_limits<std::size_t>::max() / std::max<std::size_t>(starts.shape(0), 1)) {
      throw std::bad_alloc();  // num_starts * (length + 1) would wrap around
    }
    out.resize(starts.shape(0) * (length + 1));
    random_walk(graph, starts.data(), stream_ids, starts.shape(0), {length, restart}, key, out.data(), num_threads);
  }
  return to_numpy(std::move(out));
}

template <class Index>
nb::tuple neighbors(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, nb::handle weights,
                    nb::handle sums, const InArray<std::int64_t>& frontier, std::size_t num_neighbors,
                    std::size_t num_walks, std::size_t length, std::uint64_t restart, std::uint64_t key,
                    int num_threads) {
  const AnyWeights edge_weights = any_weights(weights);
  InArray<double> sums_array;
  const WalkGraph<Index> graph = walk_graph(indptr, indices, edge_weights, sums, sums_array);
  Visits<Index> visits;
  {
    const nb::gil_scoped_release release;
    check_frontier(frontier.data(), frontier.shape(0), graph.csc.num_nodes, "pinsage_neighbors: frontier");
    visits = pinsage_neighbors(graph, frontier.data(), frontier.shape(0), num_neighbors, num_walks, {length, restart},
                               key, num_threads);
  }
  return nb::make_tuple(to_numpy(std::move(visits.indptr)), to_numpy(std::move(visits.neighbors)),
                        to_numpy(std::move(visits.counts)));
}

OutArray<double> sums(const InArray<std::int64_t>& indptr, nb::handle weights, int num_threads) {
  const AnyWeights edge_weights = any_weights(weights);
  Buffer<double> sums;
  {
    const nb::gil_scoped_release release;
    const std::size_t num_edges = size(edge_weights);
    const std::size_t num_nodes = num_nodes_of(indptr);
    check_ends(indptr, num_edges);
    const EdgeWeights summed = view(edge_weights);
    sums = Buffer<double>::long_lived(sums_in_graph(num_edges));
    std::fill_n(sums.data(), sums.size(), 0.0);  // an entry where a row begins is never read
    sum_rows(indptr.data(), num_nodes, num_edges, summed, sums.data(), num_threads);
  }
  return to_numpy(std::move(sums));
}

template <class Index>
void bind_index(nb::module_& m) {
  m.def("random_walk", &walks<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "weights"_a.none(),
        "sums"_a.none(), "starts"_a.noconvert(), "ids"_a.none(), "length"_a, "restart"_a, "key"_a, "num_threads"_a);
  m.def("pinsage_neighbors", &neighbors<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "weights"_a.none(),
        "sums"_a.none(), "frontier"_a.noconvert(), "num_neighbors"_a, "num_walks"_a, "length"_a, "restart"_a, "key"_a,
        "num_threads"_a);
}

}  // namespace

void bind_walk(nb::module_& m) {
  bind_index<std::int32_t>(m);
  bind_index<std::int64_t>(m);
  m.def("sum_rows", &sums, "indptr"_a.noconvert(), "weights"_a, "num_threads"_a);
}

}  // namespace headrace
