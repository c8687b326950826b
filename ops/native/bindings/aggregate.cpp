#include <nanobind/stl/tuple.h>

#include <limits>
#include <optional>
#include <tuple>

#include "aggregate/attention.hpp"
#include "aggregate/sddmm.hpp"
#include "aggregate/spmm.hpp"
#include "aggregate/spmm_extreme.hpp"
#include "bindings/bindings.hpp"

namespace headrace {
namespace {

template <class T>
using InTable = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutTable = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using MaybeTable = std::optional<InTable<T>>;

// indptr, indices and positions of rows of edges.
template <class Index>
using EdgeArrays = std::tuple<InArray<std::int64_t>, InArray<Index>, MaybeArray<Index>>;

// Scores of sources, destinations and edges, weights, slope, and then key, threshold, scale and ids of dropout.
template <class Value>
using ScoreArrays = std::tuple<InTable<Value>, InTable<Value>, MaybeTable<Value>, MaybeArray<Value>, double,
                               std::uint64_t, std::uint64_t, double, MaybeArray<std::int64_t>>;

// Sums of rows, largest scores and sums of exponentials.
template <class Table>
using StateTables = std::tuple<Table, Table, Table>;

template <class Table>
void check_shape(const char* name, const Table& table, std::size_t rows, std::size_t width) {
  if (table.shape(0) == rows && table.shape(1) == width) return;
  throw InputError(std::string("expected ") + name + " to be [" + std::to_string(rows) + ", " + std::to_string(width) +
                   "], got [" + std::to_string(table.shape(0)) + ", " + std::to_string(table.shape(1)) + "]");
}

template <class Table>
void check_shape(const char* name, const std::optional<Table>& table, std::size_t rows, std::size_t width) {
  if (table) check_shape(name, *table, rows, width);
}

void check_heads(std::size_t width, std::size_t heads) {
  if (heads != 0 && width % heads == 0) return;
  throw InputError("expected rows of a multiple of " + std::to_string(heads) + " heads, at least one, got " +
                   std::to_string(width) + " columns");
}

// Edges whose positions are counted by arrays of edges, or nothing counts them: then they are names alone.
constexpr std::size_t kUncounted = std::numeric_limits<std::size_t>::max();

template <class Index>
EdgeRows<Index> rows_of(const EdgeArrays<Index>& edges, std::size_t num_others,
                        std::size_t num_positions = kUncounted) {
  check_parts(edges);
  const auto& [indptr, indices, positions] = edges;
  check_length("positions", positions, indices.shape(0));
  const auto most = static_cast<std::size_t>(std::numeric_limits<Index>::max());
  if (num_positions == kUncounted) num_positions = positions ? most : indices.shape(0);
  return {indptr.data(), num_nodes_of(indptr),    indices.data(), indices.shape(0),
          num_others,    data_or_null(positions), num_positions};
}

// The same with weights of each edge and head.
template <class Index, class Value>
EdgeRows<Index> rows_of(const EdgeArrays<Index>& edges, std::size_t num_others, const MaybeTable<Value>& weights,
                        std::size_t width) {
  check_heads(width, weights ? weights->shape(1) : 1);
  return rows_of(edges, num_others, weights ? weights->shape(0) : kUncounted);
}

template <class Value, class Index>
void spmm_rows(const EdgeArrays<Index>& edges, const InTable<Value>& x, const OutTable<Value>& out,
               const MaybeTable<Value>& weights, const MaybeArray<Value>& divisors, bool fresh, int num_threads) {
  const auto rows = rows_of(edges, x.shape(0), weights, x.shape(1));
  check_shape("out", out, rows.num_rows, x.shape(1));
  check_length("divisors", divisors, rows.num_rows, "row");
  const SpmmArrays<Value> given{
      x.data(), x.shape(1), data_or_null(weights), weights ? weights->shape(1) : 1, out.data(), data_or_null(divisors),
      fresh};
  unlocked([&] { spmm(rows, given, num_threads); });
}

template <class Value, class Index>
void extreme_rows(const EdgeArrays<Index>& edges, const InTable<Value>& x, const OutTable<Value>& out,
                  const OutTable<std::int64_t>& winners, const MaybeTable<Value>& weights, bool largest, bool fresh,
                  bool last, int num_threads) {
  const auto rows = rows_of(edges, x.shape(0), weights, x.shape(1));
  check_shape("out", out, rows.num_rows, x.shape(1));
  check_shape("winners", winners, rows.num_rows, x.shape(1));
  const ExtremeArrays<Value> given{
      x.data(), x.shape(1), data_or_null(weights), weights ? weights->shape(1) : 1, out.data(), winners.data(), largest,
      fresh,    last};
  unlocked([&] { spmm_extreme(rows, given, num_threads); });
}

template <class Value, class Index>
void winner_rows(const EdgeArrays<Index>& edges, const InTable<Value>& gradients, const InTable<std::int64_t>& winners,
                 const OutTable<Value>& out, const MaybeTable<Value>& weights, bool fresh, int num_threads) {
  const std::size_t width = gradients.shape(1);
  const auto rows = rows_of(edges, gradients.shape(0), weights, width);
  check_shape("winners", winners, gradients.shape(0), width);
  check_shape("out", out, rows.num_rows, width);
  const WinnerArrays<Value> given{
      gradients.data(), winners.data(), width, data_or_null(weights), weights ? weights->shape(1) : 1,
      out.data(),       fresh};
  unlocked([&] { spmm_winners(rows, given, num_threads); });
}

template <class Value, class Index>
void sddmm_rows(const EdgeArrays<Index>& edges, const InTable<Value>& a, const InTable<Value>& b,
                const OutTable<Value>& out, const MaybeTable<std::int64_t>& winners, int num_threads) {
  const std::size_t width = b.shape(1);
  check_heads(width, out.shape(1));
  const auto rows = rows_of(edges, b.shape(0), out.shape(0));
  check_shape("a", a, rows.num_rows, width);
  check_shape("winners", winners, rows.num_rows, width);
  const SddmmArrays<Value> given{a.data(), b.data(), width, out.shape(1), data_or_null(winners), out.data()};
  unlocked([&] { sddmm(rows, given, num_threads); });
}

// What all directions of attention take first; `heads` is that of the scores.
template <class Value>
struct Scores {
  AttentionScores<Value> scores;
  std::size_t num_sources;
  std::size_t num_destinations;
  std::size_t num_positions = kUncounted;

  explicit Scores(const ScoreArrays<Value>& given) {
    check_parts(given);
    const auto& [source, destination, edge, weights, slope, key, threshold, kept_scale, edge_ids] = given;
    scores = {source.shape(1),
              source.data(),
              destination.data(),
              data_or_null(edge),
              data_or_null(weights),
              static_cast<Value>(slope),
              key,
              threshold,
              static_cast<Value>(kept_scale),
              data_or_null(edge_ids)};
    num_sources = source.shape(0);
    num_destinations = destination.shape(0);
    check_shape("destination scores", destination, num_destinations, scores.heads);
    if (edge) num_positions = edge->shape(0);
    if (num_positions == kUncounted && weights) num_positions = weights->shape(0);
    if (num_positions == kUncounted && edge_ids) num_positions = edge_ids->shape(0);
    check_positions(given, num_positions);
  }

  // All arrays of edges have an entry for each position.
  void check_positions(const ScoreArrays<Value>& given, std::size_t count) const {
    check_shape("edge scores", std::get<2>(given), count, scores.heads);
    check_length("weights", std::get<3>(given), count);
    check_length("edge_ids", std::get<8>(given), count);
  }

  template <class Table>
  void check_state(const StateTables<Table>& state, std::size_t width) const {
    check_parts(state);
    check_heads(width, scores.heads);
    check_shape("out", std::get<0>(state), num_destinations, width);
    check_shape("largest", std::get<1>(state), num_destinations, scores.heads);
    check_shape("sums", std::get<2>(state), num_destinations, scores.heads);
  }

  void check_rows(std::size_t num_rows, std::size_t expected) const {
    if (num_rows == expected) return;
    throw InputError("expected a row of edges for each row of scores, got " + std::to_string(num_rows));
  }
};

template <class Value, class Index>
void attend_rows(const EdgeArrays<Index>& edges, const ScoreArrays<Value>& scores, const InTable<Value>& x,
                 const StateTables<OutTable<Value>>& state, bool fresh, bool last, int num_threads) {
  const Scores<Value> given(scores);
  const auto rows = rows_of(edges, given.num_sources, given.num_positions);
  given.check_rows(rows.num_rows, given.num_destinations);
  given.check_state(state, x.shape(1));
  check_shape("x", x, given.num_sources, x.shape(1));
  const auto& [out, largest, sums] = state;
  const AttentionState<Value> held{largest.data(), sums.data(), out.data(), x.data(), x.shape(1), fresh, last};
  unlocked([&] { attend(rows, given.scores, held, num_threads); });
}

template <class Value, class Index>
void attend_backward_rows(const EdgeArrays<Index>& edges, const ScoreArrays<Value>& scores, const InTable<Value>& x,
                          const StateTables<InTable<Value>>& state, const InTable<Value>& gradients,
                          const OutTable<Value>& by_scores, const std::optional<OutTable<Value>>& by_other,
                          bool to_sources, int num_threads) {
  const Scores<Value> given(scores);
  const std::size_t width = x.shape(1);
  const std::size_t heads = given.scores.heads;
  const std::size_t num_others = to_sources ? given.num_destinations : given.num_sources;
  const std::size_t num_positions = !to_sources && by_other ? by_other->shape(0) : given.num_positions;
  const auto rows = rows_of(edges, num_others, num_positions);
  given.check_rows(rows.num_rows, to_sources ? given.num_sources : given.num_destinations);
  given.check_positions(scores, num_positions);
  given.check_state(state, width);
  check_shape("x", x, given.num_sources, width);
  check_shape("gradients", gradients, given.num_destinations, width);
  check_shape("gradients of scores", by_scores, rows.num_rows, heads);
  if (to_sources && !by_other) throw InputError("expected an array for the gradients of x, got none");
  check_shape("other gradients", by_other, to_sources ? rows.num_rows : num_positions, to_sources ? width : heads);
  Value* const other = data_or_null(by_other);
  const auto& [out, largest, sums] = state;
  AttentionGradients<Value> arrays{largest.data(), sums.data(), x.data(), out.data(), gradients.data(),
                                   width,          nullptr,     nullptr,  nullptr,    nullptr};
  const nb::gil_scoped_release release;
  if (to_sources) {
    arrays.by_source = by_scores.data();
    arrays.by_x = other;
    attend_backward_sources(rows, given.scores, arrays, num_threads);
  } else {
    arrays.by_destination = by_scores.data();
    arrays.by_edge = other;
    attend_backward_destinations(rows, given.scores, arrays, num_threads);
  }
}

template <class Value, class Index>
void bind_kernels(nb::module_& m) {
  m.def("spmm", &spmm_rows<Value, Index>, "rows"_array, "x"_array, "out"_array, "weights"_array.none(),
        "divisors"_array.none(), "fresh"_a, "num_threads"_a);
  m.def("spmm_extreme", &extreme_rows<Value, Index>, "rows"_array, "x"_array, "out"_array, "winners"_array,
        "weights"_array.none(), "largest"_a, "fresh"_a, "last"_a, "num_threads"_a);
  m.def("spmm_winners", &winner_rows<Value, Index>, "rows"_array, "gradients"_array, "winners"_array, "out"_array,
        "weights"_array.none(), "fresh"_a, "num_threads"_a);
  m.def("sddmm", &sddmm_rows<Value, Index>, "rows"_array, "a"_array, "b"_array, "out"_array, "winners"_array.none(),
        "num_threads"_a);
  m.def("attend", &attend_rows<Value, Index>, "rows"_array, "scores"_array, "x"_array, "state"_array, "fresh"_a,
        "last"_a, "num_threads"_a);
  m.def("attend_backward", &attend_backward_rows<Value, Index>, "rows"_array, "scores"_array, "x"_array, "state"_array,
        "gradients"_array, "by_scores"_array, "by_other"_array.none(), "to_sources"_a, "num_threads"_a);
}

}  // namespace

void bind_aggregate(nb::module_& m) {
  for_both_widths([&](auto width) {
    bind_kernels<float, decltype(width)>(m);
    bind_kernels<double, decltype(width)>(m);
  });
}

}  // namespace headrace
