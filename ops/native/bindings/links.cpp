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
                         int num_threads, const MaybeArray<std::int64_t>& slots) {
  check_length<ItemsError>("find_edges: destinations", destinations.shape(0), sources.shape(0), "source");
  if (slots) check_length<ItemsError>("find_edges: slots", slots->shape(0), sources.shape(0), "source");
  FoundEdges found;
  {
    const nb::gil_scoped_release release;
    found = find_edges(view(indptr, indices), sources.data(), destinations.data(), data_or_null(slots),
                       sources.shape(0), num_threads);
  }
  const nb::object of_trees = slots ? nb::cast(to_numpy(std::move(found.slots))) : nb::none();
  return nb::make_tuple(to_numpy(std::move(found.rows)), to_numpy(std::move(found.starts)),
                        to_numpy(std::move(found.positions)), of_trees);
}

template <class Index>
OutArray<std::int64_t> negatives(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, std::int64_t first,
                                 std::int64_t last, NegativeNodes::Law law, const MaybeArray<double>& sums,
                                 const InArray<std::int64_t>& counts, const MaybeArray<std::int64_t>& sources,
                                 const MaybeArray<std::int64_t>& order, const MaybeArray<std::int64_t>& prefix,
                                 std::uint64_t first_pair, std::uint64_t key, int num_threads) {
  // A range that is none is refused below.
  const std::size_t num_nodes = 0 <= first && first < last ? static_cast<std::size_t>(last - first) : 0;
  const std::size_t num_pairs = counts.shape(0);
  if (law == NegativeNodes::Law::kWeight) {
    check_length<InputError>("sums", sums ? sums->shape(0) : 0, num_nodes, "node");
  }
  if (sources) check_length<ItemsError>("draw_negatives: sources", sources->shape(0), num_pairs, "pair");
  const bool repeats = order && law == NegativeNodes::Law::kUniform;
  if (order && !repeats) check_length<InputError>("draw_negatives: order", order->shape(0), num_nodes, "node");
  if (prefix) check_length<InputError>("draw_negatives: prefix", prefix->shape(0), num_pairs, "pair");
  const NegativeNodes nodes{
      first, last, law, data_or_null(sums), data_or_null(order), repeats ? order->shape(0) : num_nodes};
  Buffer<std::int64_t> drawn;
  {
    const nb::gil_scoped_release release;
    drawn = draw_negatives(view(indptr, indices), nodes, counts.data(), num_pairs, data_or_null(sources),
                           data_or_null(prefix), first_pair, key, num_threads);
  }
  return to_numpy(std::move(drawn));
}

template <class Index>
void bind(nb::module_& m) {
  m.def("find_edges", &edges_of_pairs<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "sources"_a.noconvert(),
        "destinations"_a.noconvert(), "num_threads"_a, "slots"_a.noconvert().none() = nb::none());
  m.def("draw_negatives", &negatives<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "first"_a, "last"_a,
        "law"_a, "sums"_a.noconvert().none(), "counts"_a.noconvert(), "sources"_a.noconvert().none(),
        "order"_a.noconvert().none(), "prefix"_a.noconvert().none(), "first_pair"_a, "key"_a, "num_threads"_a);
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
