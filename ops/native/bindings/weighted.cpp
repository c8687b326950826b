// The inner loops of weighted picks, by themselves: for the tests.
#include <algorithm>
#include <string>
#include <utility>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "random/stream_variates.hpp"
#include "weighted/pick_weighted.hpp"
#include "weighted/race.hpp"
#include "weighted/running_shares.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/weighted_loops.hpp"
#include "weighted/weights.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

// The inner loops of weighted picks for the row that begins at `start`: variates, the edges they fall on (found by
// looking at all sums, and between some), arrivals, the earliest of them.
template <class Weight>
nb::tuple weighted_loops(const InArray<Weight>& weights, std::size_t start, std::uint64_t key, std::uint64_t vertex,
                         std::size_t wanted, InstructionSet set) {
  if (start >= weights.shape(0)) throw InputError("weighted_loops: the row must have an edge");
  const Row row{static_cast<std::int64_t>(start), weights.shape(0) - start};
  const std::size_t degree = weights.shape(0) - start;
  const auto first_block = static_cast<std::uint32_t>(wanted);
  const EdgeWeights edge_weights = view(AnyWeights(weights));
  Buffer<std::uint64_t> variates(degree + kVariatesSlack);
  Buffer<std::uint64_t> edges(degree);
  Buffer<std::uint64_t> searched(degree);
  Buffer<double> sums(degree);
  Buffer<double> parts(sums_in_row(row, edge_weights.lead));
  Buffer<std::uint64_t> times(degree + std::max(kVariatesSlack, kTimesSlack));
  Buffer<std::uint32_t> kept(degree + 1);
  stream_variates(StreamKeys(key), vertex, first_block, degree, variates.data(), set);
  sum_row(edge_weights, row, sums.data());
  find_edges(sums.data(), degree, variates.data(), degree, edges.data(), set);
  sum_parts(edge_weights, row, parts.data());
  const SummedRow<Weight> summed(weights.data(), parts.data(), row, edge_weights.lead);
  for (std::size_t first = 0; first < degree; first += DrawnParts::kMost) {
    const std::size_t count = std::min(degree - first, DrawnParts::kMost);
    DrawnParts drawn;
    draw_parts(summed, summed.total(), variates.data() + first, count, drawn, set);
    find_in_parts(summed, drawn, count, searched.data() + first, set);
  }
  std::copy(variates.data(), variates.data() + degree, times.data());
  arrivals(weights.data() + start, degree, times.data(), set);
  kept.resize(keep_earliest(times.data(), degree, wanted, kept.data(), set));
  variates.resize(degree);
  times.resize(degree);
  return nb::make_tuple(to_numpy(std::move(variates)), to_numpy(std::move(edges)), to_numpy(std::move(searched)),
                        to_numpy(std::move(times)), to_numpy(std::move(kept)));
}

// The edges of a short row that win the race, or None where that is left undecided.
template <class Weight>
nb::object race(const InArray<Weight>& weights, const InArray<std::uint64_t>& variates, std::size_t wanted,
                InstructionSet set) {
  if (weights.shape(0) > kMostRacers || variates.shape(0) != kMostRacers) {
    throw InputError("race_at_once: expected at most " + std::to_string(kMostRacers) + " weights and as many variates");
  }
  if (!has(set)) throw InputError("race_at_once: this machine lacks these instructions");
  Buffer<std::int64_t> positions(kMostRacers);
  const std::size_t count =
      race_at_once(weights.data(), variates.data(), 0, weights.shape(0), wanted, positions.data(), set);
  if (count == kUndecided) return nb::none();
  positions.resize(count);
  return nb::cast(to_numpy(std::move(positions)));
}

// The shares of the row that begins at `start`, and the edges that `count` variates of a vertex behind block
// `first_block` fall on, as far as the shares tell.
template <class Weight>
nb::tuple shares(const InArray<Weight>& weights, std::size_t start, std::uint64_t key, std::uint64_t vertex,
                 std::uint32_t first_block, std::size_t count, InstructionSet set) {
  if (start >= weights.shape(0) || weights.shape(0) - start > kMostSharedDegree) {
    throw InputError("running_shares: expected a row of 1 to " + std::to_string(kMostSharedDegree) + " edges");
  }
  if (count > kMostSharedDraws) {
    throw InputError("running_shares: expected at most " + std::to_string(kMostSharedDraws) + " draws");
  }
  if (!has(set)) throw InputError("running_shares: this machine lacks these instructions");
  const std::size_t degree = weights.shape(0) - start;
  Buffer<std::uint16_t> row(degree);
  Buffer<std::uint16_t> offsets(kMostSharedDraws);
  share_row(view(AnyWeights(weights)), {static_cast<std::int64_t>(start), degree}, row.data(), set);
  offsets.resize(find_by_shares(StreamKeys(key), vertex, first_block, row.data(), degree, count, offsets.data(), set));
  return nb::make_tuple(to_numpy(std::move(row)), to_numpy(std::move(offsets)));
}

// The picks of rows by kind: row i, [indptr[i], indptr[i + 1]) of the weights, is that of vertices[i]. Returns
// positions, row behind row, and the rows that are left; or None where the machine, the fanout or a weight of 0 does
// not let it.
template <class Weight>
nb::object by_kind(const InArray<std::int64_t>& indptr, const InArray<Weight>& weights,
                   const InArray<std::int64_t>& vertices, std::uint64_t key, std::uint64_t fanout) {
  const std::size_t num_rows = vertices.shape(0);
  if (num_rows > kRowsInStretch || indptr.shape(0) != num_rows + 1) {
    throw InputError("pick_by_kind: expected at most " + std::to_string(kRowsInStretch) +
                     " rows, and one more entry of indptr");
  }
  const std::size_t num_edges = weights.shape(0);
  const CscView<std::int64_t> csc{indptr.data(), num_rows, nullptr, num_edges};
  Buffer<Destination> rows(num_rows);
  for (std::size_t i = 0; i < num_rows; ++i) rows[i] = {vertices.data()[i], csc.row(static_cast<std::int64_t>(i))};
  EdgeWeights tables = view(AnyWeights(weights));
  Buffer<double> sums(sums_in_graph(num_edges, tables.lead));
  Buffer<std::uint16_t> shares(num_edges);
  tables.all_positive = sum_rows(indptr.data(), num_rows, num_edges, tables, sums.data(), shares.data(), 1);
  tables.sums = sums.data();
  tables.shares = shares.data();
  const WeightedPicker picker(tables, key, fanout);
  if (!picker.picks_by_kind()) return nb::none();
  Buffer<std::int64_t> begins(num_rows + 1);
  begins[0] = 0;
  for (std::size_t i = 0; i < num_rows; ++i) {
    begins[i + 1] = begins[i] + static_cast<std::int64_t>(picker.max_picks(rows[i].row.degree));
  }
  Buffer<std::int64_t> positions(static_cast<std::size_t>(begins[num_rows]));
  std::fill(positions.data(), positions.data() + positions.size(), -1);
  RowNumbers left;
  picker.pick_by_kind(rows.data(), num_rows, begins.data(), positions.data(), left);
  Buffer<std::int64_t> numbers(left.count);
  std::copy(left.numbers, left.numbers + left.count, numbers.data());
  return nb::make_tuple(to_numpy(std::move(positions)), to_numpy(std::move(numbers)));
}

}  // namespace

void bind_weighted(nb::module_& m) {
  m.def("weighted_loops", &weighted_loops<float>, "weights"_a.noconvert(), "start"_a, "key"_a, "vertex"_a, "wanted"_a,
        "instructions"_a);
  m.def("weighted_loops", &weighted_loops<double>, "weights"_a.noconvert(), "start"_a, "key"_a, "vertex"_a, "wanted"_a,
        "instructions"_a);
  m.def("race_at_once", &race<float>, "weights"_a.noconvert(), "variates"_a.noconvert(), "wanted"_a, "instructions"_a);
  m.def("race_at_once", &race<double>, "weights"_a.noconvert(), "variates"_a.noconvert(), "wanted"_a, "instructions"_a);
  m.def("running_shares", &shares<float>, "weights"_a.noconvert(), "start"_a, "key"_a, "vertex"_a, "first_block"_a,
        "count"_a, "instructions"_a);
  m.def("running_shares", &shares<double>, "weights"_a.noconvert(), "start"_a, "key"_a, "vertex"_a, "first_block"_a,
        "count"_a, "instructions"_a);
  m.def("pick_by_kind", &by_kind<float>, "indptr"_a.noconvert(), "weights"_a.noconvert(), "vertices"_a.noconvert(),
        "key"_a, "fanout"_a);
  m.def("pick_by_kind", &by_kind<double>, "indptr"_a.noconvert(), "weights"_a.noconvert(), "vertices"_a.noconvert(),
        "key"_a, "fanout"_a);
}

}  // namespace headrace
