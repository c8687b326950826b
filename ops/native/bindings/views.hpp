// Arrays of several dtypes in the bindings, and the kernels' views of them.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "bindings/bindings.hpp"
#include "graphs/edge_views.hpp"
#include "sampling/excluded.hpp"
#include "sampling/hop.hpp"
#include "sampling/rule.hpp"

namespace headrace {

using AnyIds = std::variant<std::monostate, InArray<std::int32_t>, InArray<std::int64_t>>;

inline AnyIds any_ids(nb::handle array) {
  if (array.is_none()) return {};
  if (InArray<std::int32_t> narrow; nb::try_cast(array, narrow, false)) return narrow;
  if (InArray<std::int64_t> wide; nb::try_cast(array, wide, false)) return wide;
  throw nb::type_error("expected a contiguous one-dimensional array of int32 or int64");
}

using AnyWeights = std::variant<std::monostate, InArray<float>, InArray<double>>;

inline AnyWeights any_weights(nb::handle array) {
  if (array.is_none()) return {};
  if (InArray<float> narrow; nb::try_cast(array, narrow, false)) return narrow;
  if (InArray<double> wide; nb::try_cast(array, wide, false)) return wide;
  throw nb::type_error("expected a contiguous one-dimensional array of float32 or float64");
}

inline EdgeWeights view(const AnyWeights& weights) {
  EdgeWeights view;
  if (const auto* narrow = std::get_if<InArray<float>>(&weights)) view.narrow = narrow->data();
  if (const auto* wide = std::get_if<InArray<double>>(&weights)) view.wide = wide->data();
  return view;
}

// Entries of an AnyIds or an AnyWeights; 0 of none.
template <class AnyArray>
std::size_t size(const AnyArray& any) {
  return std::visit(
      [](const auto& array) -> std::size_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(array)>, std::monostate>)
          return 0;
        else
          return array.shape(0);
      },
      any);
}

inline EdgeIds view(const AnyIds& ids) {
  EdgeIds view;
  if (const auto* narrow = std::get_if<InArray<std::int32_t>>(&ids)) view.narrow = narrow->data();
  if (const auto* wide = std::get_if<InArray<std::int64_t>>(&ids)) view.wide = wide->data();
  return view;
}

template <class Index>
CscView<Index> view(const InArray<std::int64_t>& indptr, const InArray<Index>& indices) {
  return {indptr.data(), num_nodes_of(indptr), indices.data(), indices.shape(0)};
}

// For kernels that give every edge a number: rows that leave out edges would leave out theirs.
inline void check_ends(const InArray<std::int64_t>& indptr, std::size_t num_edges) {
  const std::int64_t first = indptr.data()[0];
  const std::int64_t last = indptr.data()[num_nodes_of(indptr)];
  if (first == 0 && last == static_cast<std::int64_t>(num_edges)) return;
  throw GraphError("expected indptr to run from 0 to the number of edges, " + std::to_string(num_edges) + ", got " +
                   std::to_string(first) + " to " + std::to_string(last));
}

template <class Index>
HopGraph<Index> view(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const AnyIds& edge_ids,
                     const AnyWeights& weights) {
  const CscView<Index> csc = view(indptr, indices);
  if (edge_ids.index() != 0) check_length("edge_ids", size(edge_ids), csc.num_edges);
  if (weights.index() != 0) check_length("weights", size(weights), csc.num_edges);
  return {csc, view(edge_ids), view(weights)};
}

// (rows, starts, positions, slots or None) as find_edges returns them, or None; all are borrowed.
struct AnyExcluded {
  InArray<std::int64_t> rows;
  InArray<std::int64_t> starts;
  InArray<std::int64_t> positions;
  MaybeArray<std::int64_t> slots;
  bool given = false;
};

inline AnyExcluded any_excluded(nb::handle excluded) {
  AnyExcluded any;
  if (excluded.is_none()) return any;
  nb::tuple parts;
  any.given = nb::try_cast(excluded, parts) && parts.size() == 4 && nb::try_cast(parts[0], any.rows, false) &&
              nb::try_cast(parts[1], any.starts, false) && nb::try_cast(parts[2], any.positions, false);
  if (any.given && !parts[3].is_none()) {
    InArray<std::int64_t> slots;
    any.given = nb::try_cast(parts[3], slots, false);
    any.slots = std::move(slots);
  }
  if (!any.given) throw nb::type_error("expected excluded edges as contiguous arrays of int64, or None");
  return any;
}

inline std::optional<ExcludedRows> view(const AnyExcluded& excluded) {
  if (!excluded.given) return std::nullopt;
  const std::size_t num_rows = excluded.rows.shape(0);
  check_length<InputError>("excluded edges: starts", excluded.starts.shape(0), num_rows + 1, "row and one more");
  if (excluded.slots) check_length<InputError>("excluded edges: slots", excluded.slots->shape(0), num_rows, "row");
  return ExcludedRows{excluded.rows.data(),        num_rows,
                      excluded.starts.data(),      excluded.positions.data(),
                      excluded.positions.shape(0), data_or_null(excluded.slots)};
}

inline Rule rule_of(Rule::Kind kind, std::int64_t fanout, std::int64_t rounds = 0, bool by_weight = false) {
  if (fanout < Rule::kAll) {
    throw InputError("expected a fanout or size of at least 0, or -1 for all, got " + std::to_string(fanout));
  }
  const bool counted = rounds >= 1 && rounds <= Rule::kMostRounds;
  if (kind == Rule::Kind::kLaborImportance && !counted && rounds != Rule::kUntilConverged) {
    throw InputError("expected rounds to be at least 1 and at most " + std::to_string(Rule::kMostRounds) +
                     ", or -1 for until converged, got " + std::to_string(rounds));
  }
  return {kind, fanout, rounds, by_weight};
}

}  // namespace headrace
