#include <limits>
#include <optional>

#include "aggregate/attention.hpp"
#include "aggregate/sddmm.hpp"
#include "aggregate/spmm.hpp"
#include "aggregate/spmm_extreme.hpp"
#include "bindings/bindings.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class T>
using InTable = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using OutTable = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using MaybeTable = std::optional<InTable<T>>;

template <class Table>
void check_shape(const char* name, const Table& table, std::size_t rows, std::size_t width) {
  if (table.shape(0) == rows && table.shape(1) == width) return;
  throw FeatureError(std::string("expected ") + name + " to be [" + std::to_string(rows) + ", " +
                     std::to_string(width) + "], got [" + std::to_string(table.shape(0)) + ", " +
                     std::to_string(table.shape(1)) + "]");
}

template <class Table>
void check_shape(const char* name, const std::optional<Table>& table, std::size_t rows, std::size_t width) {
  if (table) check_shape(name, *table, rows, width);
}

void check_heads(std::size_t width, std::size_t heads) {
  if (heads != 0 && width % heads == 0) return;
  throw FeatureError("expected rows of a multiple of " + std::to_string(heads) + " heads, at least one, got " +
                     std::to_string(width) + " columns");
}

// Edges whose positions are counted by arrays of edges, or nothing counts them: then they are names alone.
constexpr std::size_t kUncounted = std::numeric_limits<std::size_t>::max();

template <class Index>
EdgeRows<Index> rows_of(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, std::size_t num_others,
                        const MaybeArray<Index>& positions, std::size_t num_positions = kUncounted) {
  const std::size_t num_rows = num_nodes_of(indptr);
  if (positions) check_length("positions", positions->shape(0), indices.shape(0));
  const auto most = static_cast<std::size_t>(std::numeric_limits<Index>::max());
  if (num_positions == kUncounted) num_positions = positions ? most : indices.shape(0);
  return {indptr.data(),           num_rows,     indices.data(), indices.shape(0), num_others,
          data_or_null(positions), num_positions};
}

// The same with weights of each edge and head.
template <class Index, class Value>
EdgeRows<Index> rows_of(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, std::size_t num_others,
                        const MaybeArray<Index>& positions, const MaybeTable<Value>& weights, std::size_t width) {
  check_heads(width, weights ? weights->shape(1) : 1);
  return rows_of(indptr, indices, num_others, positions, weights ? weights->shape(0) : kUncounted);
}

template <class Value, class Index>
void spmm_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InTable<Value>& x,
               const OutTable<Value>& out, const MaybeTable<Value>& weights, const MaybeArray<Index>& positions,
               const MaybeArray<Value>& divisors, bool fresh, int num_threads) {
  const auto rows = rows_of(indptr, indices, x.shape(0), positions, weights, x.shape(1));
  check_shape("out", out, rows.num_rows, x.shape(1));
  if (divisors) check_length<FeatureError>("divisors", divisors->shape(0), rows.num_rows, "row");
  const SpmmArrays<Value> arrays{
      x.data(), x.shape(1), data_or_null(weights), weights ? weights->shape(1) : 1, out.data(), data_or_null(divisors),
      fresh};
  const nb::gil_scoped_release release;
  spmm(rows, arrays, num_threads);
}

template <class Value, class Index>
void extreme_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InTable<Value>& x,
                  const OutTable<Value>& out, const OutTable<std::int64_t>& winners, const MaybeTable<Value>& weights,
                  const MaybeArray<Index>& positions, bool largest, bool fresh, bool last, int num_threads) {
  const auto rows = rows_of(indptr, indices, x.shape(0), positions, weights, x.shape(1));
  check_shape("out", out, rows.num_rows, x.shape(1));
  check_shape("winners", winners, rows.num_rows, x.shape(1));
  const ExtremeArrays<Value> arrays{
      x.data(), x.shape(1), data_or_null(weights), weights ? weights->shape(1) : 1, out.data(), winners.data(), largest,
      fresh,    last};
  const nb::gil_scoped_release release;
  spmm_extreme(rows, arrays, num_threads);
}

template <class Value, class Index>
void winner_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InTable<Value>& gradients,
                 const InTable<std::int64_t>& winners, const OutTable<Value>& out, const MaybeTable<Value>& weights,
                 const MaybeArray<Index>& positions, bool fresh, int num_threads) {
  const std::size_t width = gradients.shape(1);
  const auto rows = rows_of(indptr, indices, gradients.shape(0), positions, weights, width);
  check_shape("winners", winners, gradients.shape(0), width);
  check_shape("out", out, rows.num_rows, width);
  const WinnerArrays<Value> arrays{
      gradients.data(), winners.data(), width, data_or_null(weights), weights ? weights->shape(1) : 1,
      out.data(),       fresh};
  const nb::gil_scoped_release release;
  spmm_winners(rows, arrays, num_threads);
}

template <class Value, class Index>
void sddmm_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InTable<Value>& a,
                const InTable<Value>& b, const OutTable<Value>& out, const MaybeArray<Index>& positions,
                const MaybeTable<std::int64_t>& winners, int num_threads) {
  const std::size_t width = b.shape(1);
  check_heads(width, out.shape(1));
  const auto rows = rows_of(indptr, indices, b.shape(0), positions, out.shape(0));
  check_shape("a", a, rows.num_rows, width);
  check_shape("winners", winners, rows.num_rows, width);
  const SddmmArrays<Value> arrays{a.data(), b.data(), width, out.shape(1), data_or_null(winners), out.data()};
  const nb::gil_scoped_release release;
  sddmm(rows, arrays, num_threads);
}

// What all directions of attention take first; `heads` is that of the scores.
template <class Value>
struct Scores {
  AttentionScores<Value> scores;
  std::size_t num_sources;
  std::size_t num_destinations;
  std::size_t num_positions;

  Scores(const InTable<Value>& source, const InTable<Value>& destination, const MaybeTable<Value>& edge,
         const MaybeArray<Value>& weights, Value slope, std::uint64_t key, std::uint64_t threshold, Value kept_scale,
         const MaybeArray<std::int64_t>& edge_ids)
      : scores{source.shape(1), source.data(), destination.data(), data_or_null(edge), data_or_null(weights),
               slope,           key,           threshold,          kept_scale,         data_or_null(edge_ids)},
        num_sources(source.shape(0)),
        num_destinations(destination.shape(0)),
        num_positions(kUncounted) {
    check_shape("destination scores", destination, num_destinations, scores.heads);
    if (edge) num_positions = edge->shape(0);
    if (num_positions == kUncounted && weights) num_positions = weights->shape(0);
    if (num_positions == kUncounted && edge_ids) num_positions = edge_ids->shape(0);
    check_shape("edge scores", edge, num_positions, scores.heads);
    if (weights) check_length("weights", weights->shape(0), num_positions);
    if (edge_ids) check_length("edge_ids", edge_ids->shape(0), num_positions);
  }

  void check_widths(std::size_t width) const { check_heads(width, scores.heads); }
};

template <class Value, class Index>
void attend_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InTable<Value>& source,
                 const InTable<Value>& destination, const InTable<Value>& x, const OutTable<Value>& largest,
                 const OutTable<Value>& sums, const OutTable<Value>& out, const MaybeTable<Value>& edge,
                 const MaybeArray<Value>& weights, const MaybeArray<Index>& positions, Value slope, std::uint64_t key,
                 std::uint64_t threshold, Value kept_scale, const MaybeArray<std::int64_t>& edge_ids, bool fresh,
                 bool last, int num_threads) {
  const Scores<Value> given(source, destination, edge, weights, slope, key, threshold, kept_scale, edge_ids);
  given.check_widths(x.shape(1));
  const auto rows = rows_of(indptr, indices, given.num_sources, positions, given.num_positions);
  const std::size_t heads = given.scores.heads;
  check_shape("destination scores", destination, rows.num_rows, heads);
  check_shape("x", x, given.num_sources, x.shape(1));
  check_shape("largest", largest, rows.num_rows, heads);
  check_shape("sums", sums, rows.num_rows, heads);
  check_shape("out", out, rows.num_rows, x.shape(1));
  const AttentionState<Value> state{largest.data(), sums.data(), out.data(), x.data(), x.shape(1), fresh, last};
  const nb::gil_scoped_release release;
  attend(rows, given.scores, state, num_threads);
}

template <class Value, class Index>
void attend_backward_rows(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                          const InTable<Value>& source, const InTable<Value>& destination, const InTable<Value>& x,
                          const InTable<Value>& largest, const InTable<Value>& sums, const InTable<Value>& out,
                          const InTable<Value>& gradients, const OutTable<Value>& by_scores,
                          const std::optional<OutTable<Value>>& by_other, const MaybeTable<Value>& edge,
                          const MaybeArray<Value>& weights, const MaybeArray<Index>& positions, Value slope,
                          std::uint64_t key, std::uint64_t threshold, Value kept_scale,
                          const MaybeArray<std::int64_t>& edge_ids, bool to_sources, int num_threads) {
  const Scores<Value> given(source, destination, edge, weights, slope, key, threshold, kept_scale, edge_ids);
  const std::size_t width = x.shape(1);
  given.check_widths(width);
  const std::size_t heads = given.scores.heads;
  const std::size_t num_others = to_sources ? given.num_destinations : given.num_sources;
  const std::size_t num_positions = !to_sources && by_other ? by_other->shape(0) : given.num_positions;
  const auto rows = rows_of(indptr, indices, num_others, positions, num_positions);
  if (rows.num_rows != (to_sources ? given.num_sources : given.num_destinations)) {
    throw GraphError("expected a row of edges for each row of scores, got " + std::to_string(rows.num_rows));
  }
  check_shape("edge scores", edge, num_positions, heads);
  if (weights) check_length("weights", weights->shape(0), num_positions);
  if (edge_ids) check_length("edge_ids", edge_ids->shape(0), num_positions);
  check_shape("x", x, given.num_sources, width);
  check_shape("largest", largest, given.num_destinations, heads);
  check_shape("sums", sums, given.num_destinations, heads);
  check_shape("out", out, given.num_destinations, width);
  check_shape("gradients", gradients, given.num_destinations, width);
  check_shape("gradients of scores", by_scores, rows.num_rows, heads);
  if (to_sources && !by_other) throw FeatureError("expected an array for the gradients of x, got none");
  check_shape("other gradients", by_other, to_sources ? rows.num_rows : num_positions, to_sources ? width : heads);
  Value* const other = data_or_null(by_other);
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
  m.def("spmm", &spmm_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "x"_a.noconvert(),
        "out"_a.noconvert(), "weights"_a.noconvert().none(), "positions"_a.noconvert().none(),
        "divisors"_a.noconvert().none(), "fresh"_a, "num_threads"_a);
  m.def("spmm_extreme", &extreme_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "x"_a.noconvert(),
        "out"_a.noconvert(), "winners"_a.noconvert(), "weights"_a.noconvert().none(), "positions"_a.noconvert().none(),
        "largest"_a, "fresh"_a, "last"_a, "num_threads"_a);
  m.def("spmm_winners", &winner_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "gradients"_a.noconvert(), "winners"_a.noconvert(), "out"_a.noconvert(), "weights"_a.noconvert().none(),
        "positions"_a.noconvert().none(), "fresh"_a, "num_threads"_a);
  m.def("sddmm", &sddmm_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "a"_a.noconvert(),
        "b"_a.noconvert(), "out"_a.noconvert(), "positions"_a.noconvert().none(), "winners"_a.noconvert().none(),
        "num_threads"_a);
  m.def("attend", &attend_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "source"_a.noconvert(),
        "destination"_a.noconvert(), "x"_a.noconvert(), "largest"_a.noconvert(), "sums"_a.noconvert(),
        "out"_a.noconvert(), "edge"_a.noconvert().none(), "weights"_a.noconvert().none(),
        "positions"_a.noconvert().none(), "slope"_a, "key"_a, "threshold"_a, "kept_scale"_a,
        "edge_ids"_a.noconvert().none(), "fresh"_a, "last"_a, "num_threads"_a);
  m.def("attend_backward", &attend_backward_rows<Value, Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "source"_a.noconvert(), "destination"_a.noconvert(), "x"_a.noconvert(), "largest"_a.noconvert(),
        "sums"_a.noconvert(), "out"_a.noconvert(), "gradients"_a.noconvert(), "by_scores"_a.noconvert(),
        "by_other"_a.noconvert().none(), "edge"_a.noconvert().none(), "weights"_a.noconvert().none(),
        "positions"_a.noconvert().none(), "slope"_a, "key"_a, "threshold"_a, "kept_scale"_a,
        "edge_ids"_a.noconvert().none(), "to_sources"_a, "num_threads"_a);
}

}  // namespace

void bind_aggregate(nb::module_& m) {
  bind_kernels<float, std::int32_t>(m);
  bind_kernels<float, std::int64_t>(m);
  bind_kernels<double, std::int32_t>(m);
  bind_kernels<double, std::int64_t>(m);
}

}  // namespace headrace
