#include <algorithm>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "links/find_edges.hpp"
#include "links/negatives.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Index>
nb::tuple edges_of_pairs(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                         const InArray<std::int64_t>& sources, const InArray<std::int64_t>& destinations,
                         int num_threads) {
  check_length<ItemsError>("find_edges: destinations", destinations.shape(0), sources.shape(0), "source");
  FoundEdges found;
  {
    const nb::gil_scoped_release release;
    found = find_edges(view(indptr, indices), sources.data(), destinations.data(), sources.shape(0), num_threads);
  }
  return nb::make_tuple(to_numpy(std::move(found.rows)), to_numpy(std::move(found.starts)),
                        to_numpy(std::move(found.positions)));
}

template <class Index>
OutArray<std::int64_t> negatives(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, std::int64_t first,
                                 std::int64_t last, NegativeNodes::Law law, nb::handle sums,
                                 const InArray<std::int64_t>& counts, nb::handle sources, nb::handle order,
                                 nb::handle prefix, std::uint64_t first_pair, std::uint64_t key, int num_threads) {
  NegativeNodes nodes{first, last, law};
  InArray<double> sums_array;
  // A range that is none is refused below.
  const std::size_t num_nodes = 0 <= first && first < last ? static_cast<std::size_t>(last - first) : 0;
  if (law == NegativeNodes::Law::kWeight) {
    if (!nb::try_cast(sums, sums_array, false)) {
      throw nb::type_error("expected sums as a contiguous one-dimensional array of float64");
    }
    check_length<InputError>("sums", sums_array.shape(0), num_nodes, "node");
    nodes.sums = sums_array.data();
  }
  InArray<std::int64_t> sources_array;
  if (!sources.is_none()) {
    if (!nb::try_cast(sources, sources_array, false)) {
      throw nb::type_error("expected sources as a contiguous one-dimensional array of int64");
    }
    check_length<ItemsError>("draw_negatives: sources", sources_array.shape(0), counts.shape(0), "pair");
  }
  InArray<std::int64_t> order_array;
  if (!order.is_none()) {
    if (!nb::try_cast(order, order_array, false)) {
      throw nb::type_error("expected order as a contiguous one-dimensional array of int64");
    }
    check_length<InputError>("draw_negatives: order", order_array.shape(0), num_nodes, "node");
    nodes.order = order_array.data();
  }
  InArray<std::int64_t> prefix_array;
  if (!prefix.is_none()) {
    if (!nb::try_cast(prefix, prefix_array, false)) {
      throw nb::type_error("expected prefix as a contiguous one-dimensional array of int64");
    }
    check_length<InputError>("draw_negatives: prefix", prefix_array.shape(0), counts.shape(0), "pair");
  }
  Buffer<std::int64_t> drawn;
  {
    const nb::gil_scoped_release release;
    drawn = draw_negatives(view(indptr, indices), nodes, counts.data(), counts.shape(0),
                           sources.is_none() ? nullptr : sources_array.data(),
                           prefix.is_none() ? nullptr : prefix_array.data(), first_pair, key, num_threads);
  }
  return to_numpy(std::move(drawn));
}

template <class Index>
void bind(nb::module_& m) {
  m.def("find_edges", &edges_of_pairs<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "sources"_a.noconvert(),
        "destinations"_a.noconvert(), "num_threads"_a);
  m.def("draw_negatives", &negatives<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first"_a, "last"_a,
        "law"_a, "sums"_a.none(), "counts"_a.noconvert(), "sources"_a.none(), "order"_a.none(), "prefix"_a.none(),
        "first_pair"_a, "key"_a, "num_threads"_a);
}

}  // namespace

void bind_links(nb::module_& m) {
  nb::enum_<NegativeNodes::Law>(m, "NegativeLaw")
      .value("UNIFORM", NegativeNodes::Law::kUniform)
      .value("IN_DEGREE", NegativeNodes::Law::kInDegree)
      .value("WEIGHT", NegativeNodes::Law::kWeight);
  bind<std::int32_t>(m);
  bind<std::int64_t>(m);
}

}  // namespace headrace
