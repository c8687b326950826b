#include "graphs/spread.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"

namespace headrace {
namespace {

// Of its range, what a thread has found and not yet added: the state of a source is on its way from memory meanwhile.
constexpr std::size_t kPending = 256;

constexpr double kNanosecondsPerEdge = 2;
constexpr std::size_t kCacheBytes = std::size_t{4} << 20;

[[noreturn]] void throw_no_node(std::int64_t edge, std::int64_t source, std::size_t num_nodes) {
  throw InputError("indices[" + std::to_string(edge) + "] = " + std::to_string(source) +
                   " is not a node id: expected ids below num_nodes = " + std::to_string(num_nodes) +
                   "; run check_csc on the graph");
}

// Read the rows of a graph one after the other: visit(source, law.of_row(row), edge) for every edge of those that
// count.
template <class Index, class Law, class Visit>
void visit_edges(const CscView<Index>& graph, const Law& law, const Visit& visit) {
  for (std::size_t i = 0; i < graph.num_nodes; ++i) {
    const std::int64_t row = law.row(i);
    const Row edges = graph.row(row);
    if (!law.is_there(row)) continue;
    const auto of_row = law.of_row(row);
    const std::int64_t stop = edges.start + static_cast<std::int64_t>(edges.degree);
    for (std::int64_t edge = edges.start; edge < stop; ++edge) {
      const auto source = static_cast<std::size_t>(graph.indices[edge]);
      if (source >= graph.num_nodes) {
        throw_no_node(edge, static_cast<std::int64_t>(graph.indices[edge]), graph.num_nodes);
      }
      visit(source, of_row, edge);
    }
  }
}

// Add every edge's value to its source. Rows mostly follow each other, so that sources are known some edges ahead;
// where states stay in the cache there is nothing to be had from that.
template <class Index, class Law>
void spread_to_all(const CscView<Index>& graph, const Law& law) {
  const auto add = [&](std::size_t source, const auto& of_row, std::int64_t edge) {
    law.add(source, law.value(of_row, edge));
  };
  if (graph.num_nodes * sizeof(typename Law::Value) <= kCacheBytes) return visit_edges(graph, law, add);
  visit_edges(graph, law, [&](std::size_t source, const auto& of_row, std::int64_t edge) {
    const std::size_t ahead = static_cast<std::size_t>(edge) + kPrefetchDistance;
    if (ahead < graph.num_edges) {
      const auto next = static_cast<std::size_t>(graph.indices[ahead]);
      if (next < graph.num_nodes) law.prefetch(next);
    }
    add(source, of_row, edge);
  });
}

// The same for the sources of [low, low + size). Whether an edge is of one of them is not asked by a branch, which
// would be guessed wrong for every other edge.
template <class Index, class Law>
void spread_to_some(const CscView<Index>& graph, const Law& law, std::size_t low, std::size_t size) {
  std::array<std::size_t, kPending + 1> sources;
  std::array<typename Law::Value, kPending + 1> values;
  sources[0] = low;  // stands before the first, so that there is always a last one to prefetch
  std::size_t last = 0;
  const auto add_pending = [&] {
    for (std::size_t i = 1; i <= last; ++i) law.add(sources[i], values[i]);
    last = 0;
  };
  visit_edges(graph, law, [&](std::size_t source, const auto& of_row, std::int64_t edge) {
    sources[last + 1] = source;
    values[last + 1] = law.value(of_row, edge);
    last += source - low < size ? 1 : 0;
    law.prefetch(sources[last]);
    if (last == kPending) add_pending();
  });
  add_pending();
}

// Destinations are visited in the order of law.row(0), law.row(1), ... Each thread reads all edges and adds those of
// its own range of sources, each source's in the order of the visit.
template <class Index, class Law>
void spread(const CscView<Index>& graph, const Law& law, int num_threads) {
  const int threads = threads_for(num_threads, kNanosecondsPerEdge * static_cast<double>(graph.num_edges));
  const auto num_ranges = std::min(static_cast<std::size_t>(threads), graph.num_nodes);
  if (num_ranges <= 1) return spread_to_all(graph, law);
  parallel_for(threads, num_ranges, [&](std::size_t range) {
    const std::size_t low = part_bound(graph.num_nodes, num_ranges, range);
    spread_to_some(graph, law, low, part_bound(graph.num_nodes, num_ranges, range + 1) - low);
  });
}

struct SumLaw {
  using Value = double;
  const double* values;
  double* sums;

  std::int64_t row(std::size_t i) const { return static_cast<std::int64_t>(i); }
  bool is_there(std::int64_t) const { return true; }
  double of_row(std::int64_t row) const { return values[row]; }
  double value(double of_row, std::int64_t) const { return of_row; }
  void prefetch(std::size_t source) const { prefetch_write(sums + source); }
  void add(std::size_t source, double value) const { sums[source] += value; }
};

// Chances of independent events, joined without a difference from 1, which would lose those that are small.
double either(double chance, double other) { return chance + other * (1 - chance); }

struct ReachLaw {
  using Value = double;
  const double* frontier;
  const double* row_picks;
  const float* edge_picks;
  double* reached;

  std::int64_t row(std::size_t i) const { return static_cast<std::int64_t>(i); }
  bool is_there(std::int64_t row) const { return frontier[row] > 0; }
  Value of_row(std::int64_t row) const {
    return edge_picks == nullptr ? frontier[row] * row_picks[row] : frontier[row];
  }
  double value(double of_row, std::int64_t edge) const {
    return edge_picks == nullptr ? of_row : of_row * static_cast<double>(edge_picks[edge]);
  }
  void prefetch(std::size_t source) const { prefetch_write(reached + source); }
  void add(std::size_t source, double value) const { reached[source] = either(reached[source], value); }
};

struct Reached {
  double by_now;     // by the destinations that were visited
  double any_there;  // whether any of them is in the frontier
};

struct TogetherLaw {
  struct Value {
    double there;
    double pick;
  };
  const double* frontier;
  const double* row_picks;
  const std::int64_t* order;
  std::size_t num_nodes;
  Reached* states;

  std::int64_t row(std::size_t i) const {
    const std::int64_t row = order[i];
    if (static_cast<std::uint64_t>(row) < num_nodes) return row;
    throw InputError("order[" + std::to_string(i) + "] = " + std::to_string(row) + " is not a node id");
  }
  bool is_there(std::int64_t row) const { return frontier[row] > 0; }
  Value of_row(std::int64_t row) const { return {frontier[row], row_picks[row]}; }
  Value value(const Value& of_row, std::int64_t) const { return of_row; }
  void prefetch(std::size_t source) const { prefetch_write(states + source); }
  // Where a destination with a larger pick is there, this one adds nothing.
  void add(std::size_t source, Value value) const {
    Reached& state = states[source];
    state.by_now += value.pick * value.there * (1 - state.any_there);
    state.any_there = either(state.any_there, value.there);
  }
};

}  // namespace

template <class Index>
void sum_to_sources(const CscView<Index>& graph, const double* values, double* sums, int num_threads) {
  std::fill(sums, sums + graph.num_nodes, 0.0);
  spread(graph, SumLaw{values, sums}, num_threads);
}

template <class Index>
void reach_sources(const CscView<Index>& graph, const double* frontier, const double* row_picks,
                   const float* edge_picks, double* reached, int num_threads) {
  std::fill(reached, reached + graph.num_nodes, 0.0);
  spread(graph, ReachLaw{frontier, row_picks, edge_picks, reached}, num_threads);
}

template <class Index>
void reach_sources_together(const CscView<Index>& graph, const double* frontier, const double* row_picks,
                            const std::int64_t* order, double* reached, int num_threads) {
  Buffer<Reached> states(graph.num_nodes);
  std::fill(states.data(), states.data() + graph.num_nodes, Reached{0, 0});
  spread(graph, TogetherLaw{frontier, row_picks, order, graph.num_nodes, states.data()}, num_threads);
  for (std::size_t u = 0; u < graph.num_nodes; ++u) reached[u] = states[u].by_now;
}

#define HEADRACE_INSTANTIATE(Index)                                                                                    \
  template void sum_to_sources<Index>(const CscView<Index>&, const double*, double*, int);                             \
  template void reach_sources<Index>(const CscView<Index>&, const double*, const double*, const float*, double*, int); \
  template void reach_sources_together<Index>(const CscView<Index>&, const double*, const double*,                     \
                                              const std::int64_t*, double*, int);

HEADRACE_INSTANTIATE(std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t)

}  // namespace headrace
