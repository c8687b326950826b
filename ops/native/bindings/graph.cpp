#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "graphs/csc.hpp"
#include "graphs/csc_buckets.hpp"
#include "graphs/row_order.hpp"
#include "graphs/row_ranks.hpp"
#include "graphs/spread.hpp"
#include "sampling/compact.hpp"
#include "sampling/parallel_edges.hpp"
#include "sampling/typed_rows.hpp"

namespace headrace {
namespace {

// Ids below 2^31 are stored in 32 bits.
bool fits_narrow(std::size_t num_values) {
  return num_values <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()) + 1;
}

template <class Id, class Index, class EdgeId>
nb::tuple place(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes, bool sorted,
                int num_threads) {
  Buffer<std::int64_t> indptr;
  Buffer<Index> indices;
  Buffer<EdgeId> edge_ids;
  unlocked([&] {
    indptr = Buffer<std::int64_t>::long_lived(num_nodes + 1);
    indices = Buffer<Index>::long_lived(num_edges);
    if (!sorted) edge_ids = Buffer<EdgeId>::long_lived(num_edges);
    if (!sorted && has_buckets(num_nodes, num_edges)) {
      place_by_bucket(src, dst, num_edges, num_nodes, indptr.data(), indices.data(), edge_ids.data(), num_threads);
    } else {
      count_rows(dst, num_edges, num_nodes, indptr.data(), num_threads);
      place_edges(src, dst, num_edges, num_nodes, indptr.data(), indices.data(), edge_ids.data(), num_threads);
    }
  });
  return nb::make_tuple(to_numpy(std::move(indptr)), to_numpy(std::move(indices)),
                        to_numpy_or_none(std::move(edge_ids), !sorted));
}

template <class Id>
nb::tuple coo_to_csc(const StridedArray<Id>& src_array, const StridedArray<Id>& dst_array, std::size_t num_nodes,
                     int num_threads) {
  const StridedIds<Id> src{src_array.data(), static_cast<std::ptrdiff_t>(src_array.stride(0))};
  const StridedIds<Id> dst{dst_array.data(), static_cast<std::ptrdiff_t>(dst_array.stride(0))};
  const std::size_t num_edges = src_array.shape(0);
  check_length("coo_to_csc: dst", dst_array.shape(0), num_edges);
  if (num_nodes == std::numeric_limits<std::size_t>::max()) throw std::bad_alloc();  // num_nodes + 1 would be 0
  const bool sorted = unlocked([&] { return check_edges(src, dst, num_edges, num_nodes, num_threads); });
  const auto finish = [&](auto placer) { return placer(src, dst, num_edges, num_nodes, sorted, num_threads); };
  using Narrow = std::int32_t;
  using Wide = std::int64_t;
  if (fits_narrow(num_nodes)) {
    return fits_narrow(num_edges) ? finish(&place<Id, Narrow, Narrow>) : finish(&place<Id, Narrow, Wide>);
  }
  return fits_narrow(num_edges) ? finish(&place<Id, Wide, Narrow>) : finish(&place<Id, Wide, Wide>);
}

// compact(seen, neighbors) by one way of renumbering.
template <class Id, class Compact>
nb::tuple compacted(const InArray<std::int64_t>& seen, const InArray<Id>& neighbors, const Compact& compact) {
  Buffer<std::int64_t> ids;
  Buffer<Id> local;
  unlocked([&] {
    local.resize(neighbors.shape(0));
    ids = compact(seen.data(), seen.shape(0), neighbors.data(), neighbors.shape(0), local.data());
  });
  return arrays(ids, local);
}

nb::object order_of_rows(const InArray<std::int64_t>& indptr, const InArray<std::int64_t>& keys, int num_threads) {
  const std::size_t num_nodes = num_nodes_of(indptr);
  const std::size_t num_edges = keys.shape(0);
  check_ends(indptr, num_edges);
  Buffer<std::int64_t> order;
  unlocked([&] {
    if (rows_ascend(indptr.data(), num_nodes, keys.data(), num_edges, num_threads)) return;
    order = Buffer<std::int64_t>::long_lived(num_edges);
    order_rows(indptr.data(), num_nodes, keys.data(), num_edges, order.data(), num_threads);
  });
  const bool present = order.size() != 0;
  return to_numpy_or_none(std::move(order), present);
}

// Refuse what does not rise from 0, to `end` where that is known.
void check_rises(const char* name, const InArray<std::int64_t>& offsets, std::optional<std::size_t> end = {}) {
  const std::int64_t* const first = offsets.data();
  const std::int64_t* const last = first + offsets.shape(0);
  const bool rises = first != last && *first == 0 && std::is_sorted(first, last);
  if (!rises || (end && last[-1] != static_cast<std::int64_t>(*end))) {
    throw InputError(std::string("typed_rows: expected ") + name + " to rise from 0" +
                     (end ? " to " + std::to_string(*end) : "") + ", got others");
  }
}

OutArray<std::int64_t> typed_rows(const InArray<std::int64_t>& indptr, const AnyIds& edge_ids,
                                  const InArray<std::int64_t>& first_edges, const InArray<std::int64_t>& first_nodes,
                                  const InArray<bool>& ends, int num_threads) {
  const std::size_t num_nodes = num_nodes_of(indptr);
  return to_numpy(unlocked([&] {
    check_rises("indptr", indptr);
    check_rises("first_nodes", first_nodes, num_nodes);
    check_rises("relation_offsets", first_edges);
    const auto num_edges = static_cast<std::size_t>(indptr.data()[num_nodes]);
    if (edge_ids.index() != 0) check_length("typed_rows: edge_ids", size(edge_ids), num_edges);
    const std::size_t num_types = first_nodes.shape(0) - 1;
    const std::size_t num_relations = first_edges.shape(0) - 1;
    check_length("typed_rows: ends", ends.shape(0), num_types * num_relations, "node type and relation");
    return find_typed_rows(indptr.data(), num_nodes, view(edge_ids), num_edges,
                           {first_nodes.data(), num_types, first_edges.data(), num_relations, ends.data()},
                           num_threads);
  }));
}

template <class Index>
OutArray<double> sums_of(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                         const InArray<double>& values, int num_threads) {
  return to_numpy(unlocked([&] {
    const CscView<Index> graph = view(indptr, indices);
    check_length("values", values.shape(0), graph.num_nodes, "node");
    auto sums = Buffer<double>::long_lived(graph.num_nodes);
    sum_to_sources(graph, values.data(), sums.data(), num_threads);
    return sums;
  }));
}

template <class Index>
OutArray<double> reached_by(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                            const InArray<double>& frontier, const InArray<double>& row_picks,
                            const MaybeArray<float>& edge_picks, const MaybeArray<std::int64_t>& order,
                            int num_threads) {
  return to_numpy(unlocked([&] {
    const CscView<Index> graph = view(indptr, indices);
    check_length("frontier", frontier.shape(0), graph.num_nodes, "node");
    check_length("row_picks", row_picks.shape(0), graph.num_nodes, "node");
    check_length("edge_picks", edge_picks, graph.num_edges);
    check_length("order", order, graph.num_nodes, "node");
    auto reached = Buffer<double>::long_lived(graph.num_nodes);
    if (order) {
      reach_sources_together(graph, frontier.data(), row_picks.data(), order->data(), reached.data(), num_threads);
    } else {
      reach_sources(graph, frontier.data(), row_picks.data(), data_or_null(edge_picks), reached.data(), num_threads);
    }
    return reached;
  }));
}

}  // namespace

void bind_graph(nb::module_& m) {
  m.def(
      "rank_rows",
      [](const InArray<std::int64_t>& ids, std::size_t num_ids) {
        return to_numpy(unlocked([&] { return rank_rows(ids.data(), ids.shape(0), num_ids); }));
      },
      "ids"_array, "num_ids"_a);
  m.def(
      "find_rows",
      [](const InArray<std::uint64_t>& blocks, std::size_t num_ids, const InArray<std::int64_t>& ids) {
        return to_numpy(
            unlocked([&] { return find_rows(blocks.data(), blocks.shape(0), num_ids, ids.data(), ids.shape(0)); }));
      },
      "blocks"_array, "num_ids"_a, "ids"_array);
  m.def("order_of_rows", &order_of_rows, "indptr"_array, "keys"_array, "num_threads"_a);
  m.def("typed_rows", &typed_rows, "indptr"_array, "edge_ids"_array.none(), "first_edges"_array, "first_nodes"_array,
        "ends"_array, "num_threads"_a);
  nb::class_<Compactor> compactor(m, "Compactor");
  compactor
      .def(nb::init<std::size_t, std::uint32_t, std::size_t>(), "num_nodes"_a, "first_number"_a = 1,
           "most_slots"_a = NodeMap::kMostSlots)
      .def("scratch_bytes", &Compactor::scratch_bytes, nb::call_guard<nb::gil_scoped_release>());
  for_both_widths([&](auto width) {
    using Id = decltype(width);
    m.def("coo_to_csc", &coo_to_csc<Id>, "src"_array, "dst"_array, "num_nodes"_a, "num_threads"_a);
    m.def(
        "check_csc",
        [](const InArray<std::int64_t>& indptr, const InArray<Id>& indices, std::size_t num_ids, int num_threads) {
          check_csc(view(indptr, indices), num_ids, num_threads);
        },
        "indptr"_array, "indices"_array, "num_ids"_a, "num_threads"_a, nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "has_parallel_edges",
        [](const InArray<std::int64_t>& indptr, const InArray<Id>& indices, int num_threads) {
          return has_parallel_edges(view(indptr, indices), num_threads);
        },
        "indptr"_array, "indices"_array, "num_threads"_a, nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "compact",
        [](const InArray<std::int64_t>& seen, const InArray<Id>& neighbors) {
          return compacted(seen, neighbors, [](auto... arguments) { return compact(arguments...); });
        },
        "seen"_array, "neighbors"_array);
    compactor.def(
        "compact",
        [](Compactor& compactor, const InArray<std::int64_t>& seen, const InArray<Id>& neighbors) {
          return compacted(seen, neighbors, [&](auto... arguments) { return compactor.compact(arguments...); });
        },
        "seen"_array, "neighbors"_array);
    m.def("sum_to_sources", &sums_of<Id>, "indptr"_array, "indices"_array, "values"_array, "num_threads"_a);
    m.def("reach_sources", &reached_by<Id>, "indptr"_array, "indices"_array, "frontier"_array, "row_picks"_array,
          "edge_picks"_array.none(), "order"_array.none(), "num_threads"_a);
  });
}

}  // namespace headrace
