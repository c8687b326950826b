#include "sampling/hop.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/id_range.hpp"
#include "core/lent.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "layerwise/layer_hop.hpp"
#include "sampling/pick_labor.hpp"
#include "sampling/pick_uniform.hpp"
#include "weighted/pick_labor_weighted.hpp"
#include "weighted/pick_weighted.hpp"
#include "weighted/pick_weighted_replacement.hpp"

namespace headrace {
namespace {

// What one thread takes about for a row, for each edge that is read to choose from, and for each edge picked.
constexpr double kRowNanoseconds = 40;
constexpr double kReadNanoseconds = 2;
constexpr double kPickNanoseconds = 8;
constexpr std::ptrdiff_t kRowsAhead = 4;     // rows that are on their way while one is read
constexpr std::size_t kEdgesInFlight = 128;  // picked edges that are on their way while others are looked up
// Picks of a stretch that are announced as they are made, so that they come while others are drawn: at most a cache
// line each, a quarter of a second level cache of 1 MB.
template <class Picker>
constexpr std::size_t kMostPicksAhead = Picker::kAhead == Ahead::kPicks ? 4096 : 0;

// What a task works with and leaves to the next one.
template <class Picker>
struct Workplace {
  Picker picker;
  Destination destinations[kRowsInStretch];
  Buffer<std::int64_t> positions;
};

// Look up what is at the picked positions, of which the first `announced` were.
template <class Index>
void look_up(const HopGraph<Index>& graph, const Buffer<std::int64_t>& picks, std::size_t announced, bool wants_edges,
             Hop<Index>& hop) {
  const std::size_t count = picks.size();
  const std::int64_t* const positions = picks.data();
  const Index* const indices = graph.csc.indices;
  hop.neighbors.resize(count);
  Index* const neighbors = hop.neighbors.data();
  visit_announced(
      count, kEdgesInFlight, [=](std::size_t e) { prefetch_far(indices + positions[e]); },
      [=](std::size_t e) { neighbors[e] = indices[positions[e]]; }, announced);
  if (!wants_edges) return;
  hop.edges.resize(count);
  std::int64_t* const edges = hop.edges.data();
  if (graph.edge_ids.is_position()) {
    std::copy(positions, positions + count, edges);
    return;
  }
  visit_announced(
      count, kEdgesInFlight, [&](std::size_t e) { prefetch_far(graph.edge_ids.address(positions[e])); },
      [&](std::size_t e) { edges[e] = graph.edge_ids[positions[e]]; });
}

// Announce the memory that the picker will read of a row further on.
template <class Picker, class Index>
void announce_row(const HopGraph<Index>& graph, Picker& picker, const Destination* dst, const Destination* end) {
  if (end - dst <= kRowsAhead) return;
  const Row row = dst[kRowsAhead].row;
  if constexpr (Picker::kAhead == Ahead::kPicker) {
    picker.announce(dst[kRowsAhead].vertex, row);
  } else if constexpr (Picker::kAhead == Ahead::kRow) {
    constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(Index);
    const auto count = static_cast<std::size_t>(std::min(row.degree, kLinesAhead * kPerLine));
    if (count == 0) return;
    prefetch_array(graph.csc.indices + row.start, count);
    if (!graph.weights.none()) graph.weights.announce(row.start, count);
  }
}

// The picks to make room for: no row has more, but where a rule may pick whole rows it rarely picks more than its
// limit.
template <class Picker>
std::size_t usual_picks(const Picker& picker, std::uint64_t limit, const Destination* dst, const Destination* end) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t count = 0;
  for (; dst != end; ++dst) {
    const auto more = std::min<std::uint64_t>(picker.max_picks(dst->row.degree), limit);
    if (more > kMost - count) throw std::bad_alloc();  // draws with replacement can be more than 64 bits count
    count += more;
  }
  return static_cast<std::size_t>(count);
}

// Find out where the in-edges of a stretch of the frontier are, and announce the beginnings of rows that are read
// whole. A prefetch waits for the translation of its address. These come one right after the other, so that their waits
// overlap, which those of announce_row do not.
template <class Index, class Picker>
void find_rows(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
               [[maybe_unused]] const Picker& picker, Destination* out) {
  const CscView<Index>& csc = graph.csc;
  visit_announced(
      num_dst, kFarPrefetchDistance,
      [&](std::size_t i) {
        prefetch_far(csc.indptr + frontier[i]);
        prefetch_far(csc.indptr + frontier[i] + 1);  // may be on the next cache line
        if constexpr (Picker::kAhead == Ahead::kPicker) picker.announce_far(frontier[i]);
      },
      [&](std::size_t i) {
        const Row row = csc.row(frontier[i]);
        out[i] = {frontier[i], row};
        if constexpr (Picker::kAhead == Ahead::kRow || Picker::kAhead == Ahead::kPicker) {
          if (row.degree != 0) prefetch_far(picker.beginning(row));
        }
      });
}

// Pick from rows in turn, behind what is in `positions` and, where there are importance weights, in `weights`. ends[i]
// is the size of `positions` behind the picks of row i.
template <class Index, class Picker>
void pick_in_turn(const HopGraph<Index>& graph, Picker& picker, const Destination* begin, const Destination* end,
                  std::uint64_t limit, Buffer<std::int64_t>& positions, std::int64_t* ends, Buffer<float>& weights) {
  const std::size_t usual = usual_picks(picker, limit, begin, end);
  positions.ensure_spare(usual + kPickSlack);
  if (Picker::kReturnsWeights) weights.ensure_spare(usual);
  for (const Destination* dst = begin; dst != end; ++dst) {
    announce_row(graph, picker, dst, end);
    const std::size_t size = positions.size();
    const std::size_t max_picks = picker.max_picks(dst->row.degree);
    positions.ensure_spare(max_picks + kPickSlack);
    float* row_weights = nullptr;
    if (Picker::kReturnsWeights) {
      weights.ensure_spare(max_picks);
      row_weights = weights.data() + size;
    }
    const std::size_t count = picker(dst->vertex, dst->row, positions.data() + size, row_weights);
    positions.resize(size + count);
    for (std::size_t e = size; e < std::min(size + count, kMostPicksAhead<Picker>); ++e) {
      prefetch_far(graph.csc.indices + positions[e]);
    }
    if (Picker::kReturnsWeights) weights.resize(size + count);
    *ends++ = static_cast<std::int64_t>(size + count);
  }
}

// The picks of a stretch of the frontier, of at most kRowsInStretch vertices, over what `hop` held.
template <class Index, class Picker>
void sample_stretch(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                    std::uint64_t limit, bool wants_edges, Workplace<Picker>& place, Hop<Index>& hop) {
  find_rows(graph, frontier, num_dst, place.picker, place.destinations);
  hop.has_weights = Picker::kReturnsWeights;
  hop.indptr.resize(num_dst + 1);
  hop.indptr[0] = 0;
  place.positions.resize(0);
  hop.weights.resize(0);
  pick_in_turn(graph, place.picker, place.destinations, place.destinations + num_dst, limit, place.positions,
               hop.indptr.data() + 1, hop.weights);
  const std::size_t announced = std::min(place.positions.size(), kMostPicksAhead<Picker>);
  look_up(graph, place.positions, announced, wants_edges, hop);
}

[[noreturn]] void refuse_draws(std::uint64_t fanout, std::uint64_t num_rows) {
  throw InputError("sample_hop: a fanout of " + std::to_string(fanout) + " with replacement, for " +
                   std::to_string(num_rows) +
                   " nodes, is more draws than memory can hold; lower the fanout or the number of seeds");
}

// Draws with replacement may be any number: what memory cannot hold is refused before it is made. Where they are few
// nothing is counted.
template <class Index>
void refuse_too_many_draws(const CscView<Index>& csc, const std::int64_t* frontier, std::size_t num_dst,
                           std::uint64_t fanout) {
  constexpr std::uint64_t kFew = std::uint64_t{1} << 26;
  if (num_dst == 0 || fanout <= kFew / num_dst) return;
  std::uint64_t num_rows = 0;
  for (std::size_t i = 0; i < num_dst; ++i) num_rows += csc.row(frontier[i]).degree == 0 ? 0 : 1;
  if (num_rows == 0) return;
  if (fanout > std::numeric_limits<std::size_t>::max() / num_rows) refuse_draws(fanout, num_rows);
  try {
    const Buffer<Index> neighbors(static_cast<std::size_t>(num_rows * fanout));
  } catch (const std::bad_alloc&) {
    refuse_draws(fanout, num_rows);
  }
}

// About what one thread takes for a hop, were the frontier's degrees those of the whole graph. Rules that read rows do
// so from end to end, the others draw positions.
template <class Index>
double nanoseconds_of(const CscView<Index>& csc, std::size_t num_dst, bool reads_rows, Rule rule) {
  const double degree =
      static_cast<double>(csc.num_edges) / static_cast<double>(std::max<std::size_t>(csc.num_nodes, 1));
  const auto limit = static_cast<double>(rule.limit());
  // With a mean degree below 1 some rows are empty.
  const double picks = rule.replaces() ? limit * std::min(degree, 1.0) : std::min(degree, limit);
  const double row = kRowNanoseconds + (reads_rows ? kReadNanoseconds * degree : 0.0) + kPickNanoseconds * picks;
  return row * static_cast<double>(num_dst);
}

template <class Index, class MakePicker>
void sample_with(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                 const MakePicker& make_picker, Rule rule, int num_threads, HopSink<Index>& sink) {
  const std::uint64_t limit = rule.limit();
  sink.expect(num_dst, limit);
  const bool wants_edges = sink.wants_edges();
  using Picker = decltype(make_picker());
  constexpr bool kReadsRows = Picker::kAhead != Ahead::kNothing && Picker::kAhead != Ahead::kPicks;
  num_threads = threads_for(num_threads, nanoseconds_of(graph.csc, num_dst, kReadsRows, rule));
  const auto make_place = [&] { return Workplace<Picker>{make_picker(), {}, {}}; };
  // Something is appended even of an empty frontier: it says whether there are weights.
  const std::size_t num_tasks = std::max<std::size_t>(1, (num_dst + kRowsInStretch - 1) / kRowsInStretch);
  const auto sample_task = [&](std::size_t task, auto& place, Hop<Index>& hop) {
    const std::size_t first = part_bound(num_dst, num_tasks, task);
    const std::size_t count = part_bound(num_dst, num_tasks, task + 1) - first;
    sample_stretch(graph, frontier + first, count, limit, wants_edges, place, hop);
  };
  if (num_threads == 1) {
    Hop<Index> hop;
    auto place = make_place();
    for (std::size_t task = 0; task < num_tasks; ++task) {
      sample_task(task, place, hop);
      sink.append(hop);
    }
    return;
  }
  Lent places(make_place);
  std::vector<Hop<Index>> hops(num_tasks);
  parallel_in_order(
      num_threads, num_tasks,
      [&](std::size_t task) {
        auto place = places.take();
        sample_task(task, *place, hops[task]);
        places.give_back(std::move(place));
      },
      [&](std::size_t task) {
        sink.append(hops[task]);
        hops[task] = {};
      });
}

}  // namespace

template <class Index>
void sample_hop(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst, Rule rule,
                std::uint64_t key, int num_threads, HopSink<Index>& sink, LayerReducer* reducer) {
  if (rule.is_layer_wise()) {
    return sink.append(sample_layer(graph, frontier, num_dst, rule, key, num_threads, reducer));
  }
  const auto run = [&](const auto& make_picker) {
    sample_with(graph, frontier, num_dst, make_picker, rule, num_threads, sink);
  };
  const Index* const indices = graph.csc.indices;
  const EdgeWeights weights = graph.weights;
  const std::uint64_t fanout = rule.limit();
  const auto repeats = [&] { return RowRepeats<Index>(indices, graph.parallel_edges, graph.known_parallel_edges); };
  if (rule.replaces()) {
    refuse_too_many_draws(graph.csc, frontier, num_dst, fanout);
  }
  if (weights.none()) {
    if (rule.takes_all()) return run([] { return AllPicker(); });
    switch (rule.kind) {
      case Rule::Kind::kNeighbor:
        return run([=] { return UniformPicker(key, fanout); });
      case Rule::Kind::kNeighborReplacement:
        return run([=] { return UniformReplacementPicker(key, fanout); });
      case Rule::Kind::kLaborExact:
        return run([=] { return LaborExactPicker<Index>(indices, key, fanout, repeats()); });
      case Rule::Kind::kLaborPoisson:
        return run([=] { return LaborPoissonPicker<Index>(indices, key, fanout, repeats()); });
      default:
        break;  // layer-wise rules do not come here
    }
  }
  if (rule.kind == Rule::Kind::kLaborExact || rule.kind == Rule::Kind::kLaborPoisson) {
    const bool exact = rule.kind == Rule::Kind::kLaborExact;
    return run([=] { return LaborWeightedPicker<Index>(indices, weights, key, fanout, exact, repeats()); });
  }
  if (rule.replaces()) {
    return run([=] { return WeightedReplacementPicker(weights, key, fanout); });
  }
  return run([=] { return WeightedPicker(weights, key, fanout); });
}

void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name) {
  const std::size_t i = first_out_of_range(frontier, 0, num_dst, num_nodes);
  if (i == num_dst) return;
  throw ItemsError(std::string(name) + "[" + std::to_string(i) + "] = " + std::to_string(frontier[i]) +
                   " is not a node of the graph: expected 0 <= id < num_nodes = " + std::to_string(num_nodes));
}

template void sample_hop<std::int32_t>(const HopGraph<std::int32_t>&, const std::int64_t*, std::size_t, Rule,
                                       std::uint64_t, int, HopSink<std::int32_t>&, LayerReducer*);
template void sample_hop<std::int64_t>(const HopGraph<std::int64_t>&, const std::int64_t*, std::size_t, Rule,
                                       std::uint64_t, int, HopSink<std::int64_t>&, LayerReducer*);

}  // namespace headrace
