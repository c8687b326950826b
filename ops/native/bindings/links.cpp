#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "links/find_edges.hpp"
#include "links/negatives.hpp"
#include "sampling/join_hops.hpp"

namespace headrace {
namespace {

template <class Index>
nb::tuple edges_of_pairs(const AnyRows& indptr, const InArray<Index>& indices, const InArray<std::int64_t>& sources,
                         const InArray<std::int64_t>& destinations, int num_threads,
                         const MaybeArray<std::int64_t>& slots) {
  check_length("find_edges: destinations", destinations.shape(0), sources.shape(0), "source");
  check_length("find_edges: slots", slots, sources.shape(0), "source");
  FoundEdges found = unlocked([&] {
    return find_edges(view(indptr, indices), sources.data(), destinations.data(), data_or_null(slots), sources.shape(0),
                      num_threads);
  });
  return nb::make_tuple(to_numpy(std::move(found.rows)), to_numpy(std::move(found.starts)),
                        to_numpy(std::move(found.positions)),
                        to_numpy_or_none(std::move(found.slots), slots.has_value()));
}

template <class Index>
OutArray<std::int64_t> negatives(const AnyRows& indptr, const InArray<Index>& indices, std::int64_t first,
                                 std::int64_t last, NegativeNodes::Law law, const MaybeArray<double>& sums,
                                 const InArray<std::int64_t>& counts, const MaybeArray<std::int64_t>& sources,
                                 const MaybeArray<std::int64_t>& order, const MaybeArray<std::int64_t>& prefix,
                                 std::uint64_t first_pair, std::uint64_t key, int num_threads) {
  // A range that is none is refused below.
  const std::size_t num_nodes = 0 <= first && first < last ? static_cast<std::size_t>(last - first) : 0;
  const std::size_t num_pairs = counts.shape(0);
  if (law == NegativeNodes::Law::kWeight) {
    check_length("sums", sums ? sums->shape(0) : 0, num_nodes, "node");
  }
  check_length("draw_negatives: sources", sources, num_pairs, "pair");
  const bool repeats = order && law == NegativeNodes::Law::kUniform;
  if (!repeats) check_length("draw_negatives: order", order, num_nodes, "node");
  check_length("draw_negatives: prefix", prefix, num_pairs, "pair");
  const NegativeNodes nodes{
      first, last, law, data_or_null(sums), data_or_null(order), repeats ? order->shape(0) : num_nodes};
  return to_numpy(unlocked([&] {
    return draw_negatives(view(indptr, indices), nodes, counts.data(), num_pairs, data_or_null(sources),
                          data_or_null(prefix), first_pair, key, num_threads);
  }));
}

void check_hops(const char* name, std::size_t num_arrays, std::size_t num_hops) {
  if (num_arrays == num_hops) return;
  throw InputError(std::string("join_hops: expected ") + name + " of " + std::to_string(num_hops) +
                   " hops, as there are indptrs, got those of " + std::to_string(num_arrays));
}

InArray<std::int64_t> wide_array(nb::handle array) {
  if (InArray<std::int64_t> wide; nb::try_cast(array, wide, false) && wide.is_valid()) return wide;
  throw nb::type_error("expected a contiguous one-dimensional array of int64");
}

AnyIds some_ids(nb::handle array) {
  if (InArray<std::int32_t> narrow; nb::try_cast(array, narrow, false) && narrow.is_valid()) return narrow;
  return wide_array(array);
}

// One array at a time: a cast of a whole list takes None for an array.
nb::tuple joined_hops(const nb::list& indptrs, const nb::list& indices, const std::optional<nb::list>& edge_ids) {
  const std::size_t num_hops = indptrs.size();
  check_hops("indices", indices.size(), num_hops);
  if (edge_ids) check_hops("edge_ids", edge_ids->size(), num_hops);
  if (!edge_ids && num_hops > 1) throw InputError("join_hops: several hops need edge_ids, got none");
  // Lists can be changed by other threads while the kernel runs: what it reads is held here.
  std::vector<InArray<std::int64_t>> held_indptrs;
  std::vector<AnyIds> held_sources;
  std::vector<InArray<std::int64_t>> held_edge_ids;
  std::vector<HopEdges> hops;
  for (std::size_t h = 0; h < num_hops; ++h) {
    held_indptrs.push_back(wide_array(indptrs[h]));
    held_sources.push_back(some_ids(indices[h]));
    const std::size_t num_edges = size(held_sources[h]);
    hops.push_back({held_indptrs[h].data(), num_nodes_of(held_indptrs[h]), view(held_sources[h]), num_edges, nullptr});
    if (!edge_ids) continue;
    held_edge_ids.push_back(wide_array((*edge_ids)[h]));
    check_length("edge_ids", held_edge_ids[h].shape(0), num_edges);
    hops[h].edge_ids = held_edge_ids[h].data();
  }
  JoinedHops joined = unlocked([&] { return join_hops(hops); });
  nb::list kept;
  for (Buffer<std::int64_t>& positions : joined.kept) kept.append(to_numpy(std::move(positions)));
  return nb::make_tuple(to_numpy(std::move(joined.edge_index)),
                        to_numpy_or_none(std::move(joined.edge_ids), edge_ids.has_value()), kept, joined.num_checked);
}

}  // namespace

void bind_links(nb::module_& m) {
  nb::enum_<NegativeNodes::Law>(m, "NegativeLaw")
      .value("UNIFORM", NegativeNodes::Law::kUniform)
      .value("IN_DEGREE", NegativeNodes::Law::kInDegree)
      .value("WEIGHT", NegativeNodes::Law::kWeight);
  for_both_widths([&](auto width) {
    using Index = decltype(width);
    m.def("find_edges", &edges_of_pairs<Index>, "indptr"_array, "indices"_array, "sources"_array, "destinations"_array,
          "num_threads"_a, "slots"_array = nb::none());
    m.def("draw_negatives", &negatives<Index>, "indptr"_array, "indices"_array, "first"_a, "last"_a, "law"_a,
          "sums"_array.none(), "counts"_array, "sources"_array.none(), "order"_array.none(), "prefix"_array.none(),
          "first_pair"_a, "key"_a, "num_threads"_a);
  });
  m.def("join_hops", &joined_hops, "indptrs"_array, "indices"_array, "edge_ids"_array.none());
}

}  // namespace headrace
