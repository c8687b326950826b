#include "hop.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "layer_hop.hpp"
#include "parallel.hpp"
#include "pick_labor.hpp"
#include "pick_labor_weighted.hpp"
#include "pick_uniform.hpp"
#include "pick_weighted.hpp"
#include "prefetch.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsPerTask = 512;  // what a task makes stays in a core's cache until it is appended
// For fewer rows a second thread takes longer to start than it saves: to look them up, to pick of them.
constexpr std::size_t kRowsPerSearch = 16384;
constexpr std::size_t kMostSerialRows = 2048;
constexpr std::ptrdiff_t kRowsAhead = 4;     // rows that are on their way while one is read
constexpr std::ptrdiff_t kRowsPrepared = 2;  // rows that are prepared while one is picked from
constexpr std::ptrdiff_t kRowsPerLot = 16;   // rows whose beginnings are announced together
constexpr std::size_t kEdgesInFlight = 128;  // picked edges whose cache lines are on their way while drawing goes on

// A vertex of the frontier, and where its in-edges are.
struct Destination {
  std::int64_t vertex;
  Row row;
};

// Look up what is at the picked positions; they turn into edge ids in place.
template <class Index>
void look_up(const HopGraph<Index>& graph, Hop<Index>& hop) {
  const std::size_t count = hop.edges.size();
  hop.neighbors.resize(count);
  std::int64_t* const edges = hop.edges.data();
  Index* const neighbors = hop.neighbors.data();
  if (graph.edge_ids.is_position()) {
    for (std::size_t e = 0; e < count; ++e) {
      if (e + kEdgesInFlight < count) prefetch_far(graph.csc.indices + edges[e + kEdgesInFlight]);
      neighbors[e] = graph.csc.indices[edges[e]];
    }
    return;
  }
  for (std::size_t e = 0; e < count; ++e) {
    if (e + kEdgesInFlight < count) {
      prefetch_far(graph.csc.indices + edges[e + kEdgesInFlight]);
      prefetch_far(graph.edge_ids.address(edges[e + kEdgesInFlight]));
    }
    neighbors[e] = graph.csc.indices[edges[e]];
    edges[e] = graph.edge_ids[edges[e]];
  }
}

// Announce the memory that the picker will read of a row further on.
template <class Picker, class Index>
void announce_row(const HopGraph<Index>& graph, Picker& picker, const Destination* dst, const Destination* end) {
  constexpr std::ptrdiff_t kDistance = kRowsAhead + (Picker::kAhead == Ahead::kPrepare ? kRowsPrepared : 0);
  if (Picker::kAhead == Ahead::kNothing || end - dst <= kDistance) return;
  const Row row = dst[kDistance].row;
  if constexpr (Picker::kAhead == Ahead::kPicker || Picker::kAhead == Ahead::kPrepare) {
    picker.announce(row);
  } else {
    constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(Index);
    for (std::uint64_t k = 0; k < std::min(row.degree, kLinesAhead * kPerLine); k += kPerLine) {
      const std::int64_t position = row.start + static_cast<std::int64_t>(k);
      prefetch_read(graph.csc.indices + position);
      if (!graph.weights.none()) prefetch_read(graph.weights.address(position));
    }
  }
}

// Have a row that was announced before prepared. The first call for a stretch catches up.
template <class Picker>
void prepare_row(Picker& picker, const Destination* begin, const Destination* dst, const Destination* end) {
  if constexpr (Picker::kAhead == Ahead::kPrepare) {
    static_assert(kRowsPrepared < kMostPrepared, "and the row that is picked from");
    const std::ptrdiff_t stop = std::min(kRowsPrepared + 1, end - dst);
    for (std::ptrdiff_t i = dst == begin ? 0 : kRowsPrepared; i < stop; ++i) picker.prepare(dst[i].vertex, dst[i].row);
  }
}

// Announce where the rows of a lot begin; returns its end. A prefetch waits for the translation of its address. These
// come one right after the other, so that their waits overlap, which those of announce_row do not.
template <class Index>
const Destination* announce_lot(const HopGraph<Index>& graph, const Destination* dst, const Destination* end) {
  const Destination* const stop = dst + std::min(kRowsPerLot, end - dst);
  for (; dst != stop; ++dst) {
    const std::int64_t start = dst->row.start;
    if (dst->row.degree == 0) continue;
    prefetch_far(graph.weights.none() ? graph.csc.indices + start : graph.weights.address(start));
  }
  return stop;
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

// The picks of a stretch of the frontier, over what `hop` held.
template <class Index, class Picker>
void sample_stretch(const HopGraph<Index>& graph, const Destination* dst, const Destination* end, Picker& picker,
                    std::uint64_t limit, Hop<Index>& hop) {
  hop.has_weights = Picker::kReturnsWeights;
  hop.indptr.resize(static_cast<std::size_t>(end - dst) + 1);
  std::int64_t* count_so_far = hop.indptr.data();
  *count_so_far = 0;
  hop.edges.resize(0);
  hop.weights.resize(0);
  const std::size_t usual = usual_picks(picker, limit, dst, end);
  hop.edges.ensure_spare(usual + kPickSlack);
  if (Picker::kReturnsWeights) hop.weights.ensure_spare(usual);
  const Destination* const begin = dst;
  const Destination* begun = dst;
  for (; dst != end; ++dst) {
    if (Picker::kAhead != Ahead::kNothing && begun - dst <= kRowsPerLot) begun = announce_lot(graph, begun, end);
    announce_row(graph, picker, dst, end);
    prepare_row(picker, begin, dst, end);
    const std::size_t size = hop.edges.size();
    const std::size_t max_picks = picker.max_picks(dst->row.degree);
    hop.edges.ensure_spare(max_picks + kPickSlack);
    float* weights = nullptr;
    if (Picker::kReturnsWeights) {
      hop.weights.ensure_spare(max_picks);
      weights = hop.weights.data() + size;
    }
    const std::size_t count = picker(dst->vertex, dst->row, hop.edges.data() + size, weights);
    hop.edges.resize(size + count);
    if (Picker::kReturnsWeights) hop.weights.resize(size + count);
    *++count_so_far = static_cast<std::int64_t>(size + count);
  }
  look_up(graph, hop);
}

template <class Index>
Buffer<Destination> find_rows(const CscView<Index>& csc, const std::int64_t* frontier, std::size_t num_dst,
                              int num_threads) {
  Buffer<Destination> destinations(num_dst);
  const std::size_t num_tasks = num_dst / kRowsPerSearch + 1;
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) {
      if (i + kPrefetchDistance < end) {
        const std::int64_t* const ahead = csc.indptr + frontier[i + kPrefetchDistance];
        prefetch_read(ahead);
        prefetch_read(ahead + 1);  // may be on the next cache line
      }
      destinations[i] = {frontier[i], csc.row(frontier[i])};
    }
  });
  return destinations;
}

template <class Index, class MakePicker>
void sample_with(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                 const MakePicker& make_picker, std::uint64_t limit, int num_threads, HopSink<Index>& sink) {
  const Buffer<Destination> destinations = find_rows(graph.csc, frontier, num_dst, num_threads);
  const Destination* const end = destinations.data() + num_dst;
  sink.expect(num_dst, usual_picks(make_picker(), limit, destinations.data(), end));
  // Something is appended even of an empty frontier: it says whether there are weights.
  const std::size_t num_tasks = std::max<std::size_t>(1, (num_dst + kRowsPerTask - 1) / kRowsPerTask);
  const auto bound = [&](std::size_t task) { return destinations.data() + part_bound(num_dst, num_tasks, task); };
  if (num_threads <= 1 || num_dst <= kMostSerialRows) {
    Hop<Index> hop;
    auto picker = make_picker();
    for (std::size_t task = 0; task < num_tasks; ++task) {
      sample_stretch(graph, bound(task), bound(task + 1), picker, limit, hop);
      sink.append(hop);
    }
    return;
  }
  std::vector<Hop<Index>> hops(num_tasks);
  parallel_in_order(
      num_threads, num_tasks,
      [&](std::size_t task) {
        auto picker = make_picker();
        sample_stretch(graph, bound(task), bound(task + 1), picker, limit, hops[task]);
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
  if (rule.is_layer_wise()) return sink.append(sample_layer(graph, frontier, num_dst, rule, key, num_threads, reducer));
  const auto run = [&](const auto& make_picker) {
    sample_with(graph, frontier, num_dst, make_picker, rule.limit(), num_threads, sink);
  };
  const Index* const indices = graph.csc.indices;
  const EdgeWeights weights = graph.weights;
  const std::uint64_t fanout = rule.limit();
  if (weights.none()) {
    if (rule.takes_all()) return run([] { return AllPicker(); });
    switch (rule.kind) {
      case Rule::Kind::kNeighbor:
        return run([=] { return UniformPicker(key, fanout); });
      case Rule::Kind::kNeighborReplacement:
        return run([=] { return UniformReplacementPicker(key, fanout); });
      case Rule::Kind::kLaborExact:
        return run([=] { return LaborExactPicker<Index>(indices, key, fanout); });
      case Rule::Kind::kLaborPoisson:
        return run([=] { return LaborPoissonPicker<Index>(indices, key, fanout); });
      default:
        break;  // layer-wise rules do not come here
    }
  }
  if (rule.kind == Rule::Kind::kLaborExact || rule.kind == Rule::Kind::kLaborPoisson) {
    const bool exact = rule.kind == Rule::Kind::kLaborExact;
    return run([=] { return LaborWeightedPicker<Index>(indices, weights, key, fanout, exact); });
  }
  if (rule.kind == Rule::Kind::kNeighborReplacement && !rule.takes_all()) {
    return run([=] { return WeightedReplacementPicker(weights, key, fanout); });
  }
  return run([=] { return WeightedPicker(weights, key, fanout); });
}

void check_frontier(const std::int64_t* frontier, std::size_t num_dst, std::size_t num_nodes, const char* name) {
  std::uint64_t largest = 0;  // a negative id is a huge unsigned one
  for (std::size_t i = 0; i < num_dst; ++i) largest = std::max(largest, static_cast<std::uint64_t>(frontier[i]));
  if (num_dst == 0 || largest < num_nodes) return;
  std::size_t i = 0;
  while (static_cast<std::uint64_t>(frontier[i]) < num_nodes) ++i;
  throw ItemsError(std::string(name) + "[" + std::to_string(i) + "] = " + std::to_string(frontier[i]) +
                   " is not a node of the graph: expected 0 <= id < num_nodes = " + std::to_string(num_nodes));
}

template void sample_hop<std::int32_t>(const HopGraph<std::int32_t>&, const std::int64_t*, std::size_t, Rule,
                                       std::uint64_t, int, HopSink<std::int32_t>&, LayerReducer*);
template void sample_hop<std::int64_t>(const HopGraph<std::int64_t>&, const std::int64_t*, std::size_t, Rule,
                                       std::uint64_t, int, HopSink<std::int64_t>&, LayerReducer*);

}  // namespace headrace
