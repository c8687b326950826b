// The kernels' views of arrays of graphs.
#pragma once

#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include "bindings/bindings.hpp"
#include "graphs/edge_views.hpp"
#include "sampling/excluded.hpp"
#include "sampling/hop.hpp"
#include "sampling/rule.hpp"

namespace headrace {

// The kernels' view of ids or weights: one of two pointers, or none.
template <class View, class Narrow, class Wide>
View view_of(const std::variant<std::monostate, InArray<Narrow>, InArray<Wide>>& any) {
  View view;
  if (const auto* narrow = std::get_if<InArray<Narrow>>(&any)) view.narrow = narrow->data();
  if (const auto* wide = std::get_if<InArray<Wide>>(&any)) view.wide = wide->data();
  return view;
}

inline EdgeIds view(const AnyIds& ids) { return view_of<EdgeIds>(ids); }
inline EdgeWeights view(const AnyWeights& weights) { return view_of<EdgeWeights>(weights); }

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

template <class Index>
CscView<Index> view(const InArray<std::int64_t>& indptr, const InArray<Index>& indices) {
  return {indptr.data(), num_nodes_of(indptr), indices.data(), indices.shape(0)};
}

// The rows of some of many nodes: their bounds, and the blocks of RowRanks. Made in Python, which checks lengths.
using RankedRows = std::tuple<InArray<std::int64_t>, InArray<std::uint64_t>, std::size_t>;
using AnyRows = std::variant<InArray<std::int64_t>, RankedRows>;

template <class Index>
CscView<Index> view(const AnyRows& rows, const InArray<Index>& indices) {
  if (const auto* whole = std::get_if<InArray<std::int64_t>>(&rows)) return view(*whole, indices);
  const auto& [indptr, blocks, num_ids] = std::get<RankedRows>(rows);
  if (blocks.shape(0) != RowRanks::num_blocks(num_ids) * RowRanks::kBlock) {
    throw InputError("expected blocks of " + std::to_string(num_ids) + " ids");
  }
  return {indptr.data(), num_ids, indices.data(), indices.shape(0), {blocks.data(), num_nodes_of(indptr)}};
}

// The rows that there may be: all that `rows` bounds, or all ids of ranks.
inline std::size_t num_rows_of(const AnyRows& rows) {
  const auto* ranked = std::get_if<RankedRows>(&rows);
  return ranked == nullptr ? num_nodes_of(std::get<InArray<std::int64_t>>(rows)) : std::get<2>(*ranked);
}

// For kernels that give every edge a number: rows that leave out edges would leave out theirs.
inline void check_ends(const InArray<std::int64_t>& indptr, std::size_t num_edges) {
  const std::int64_t first = indptr.data()[0];
  const std::int64_t last = indptr.data()[num_nodes_of(indptr)];
  if (first == 0 && last == static_cast<std::int64_t>(num_edges)) return;
  throw InputError("expected indptr to run from 0 to the number of edges, " + std::to_string(num_edges) + ", got " +
                   std::to_string(first) + " to " + std::to_string(last));
}

template <class Index>
HopGraph<Index> view(const AnyRows& indptr, const InArray<Index>& indices, const AnyIds& edge_ids,
                     const AnyWeights& weights, const MaybeArray<std::int64_t>& times = {}) {
  const CscView<Index> csc = view(indptr, indices);
  if (edge_ids.index() != 0) check_length("edge_ids", size(edge_ids), csc.num_edges);
  if (weights.index() != 0) check_length("weights", size(weights), csc.num_edges);
  check_length("times", times, csc.num_edges);
  return {csc, view(edge_ids), view(weights), data_or_null(times)};
}

// (rows, starts, positions, slots or None) as find_edges returns them, or None; all are borrowed.
using AnyExcluded = std::optional<
    std::tuple<InArray<std::int64_t>, InArray<std::int64_t>, InArray<std::int64_t>, MaybeArray<std::int64_t>>>;

inline std::optional<ExcludedRows> view(const AnyExcluded& excluded) {
  if (!excluded) return std::nullopt;
  check_parts(*excluded);
  const auto& [rows, starts, positions, slots] = *excluded;
  const std::size_t num_rows = rows.shape(0);
  check_length("excluded edges: starts", starts.shape(0), num_rows + 1, "row and one more");
  check_length("excluded edges: slots", slots, num_rows, "row");
  return ExcludedRows{rows.data(), num_rows, starts.data(), positions.data(), positions.shape(0), data_or_null(slots)};
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
