#include "walks/saint.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "random/bounded.hpp"
#include "random/stream.hpp"
#include "random/unit_interval.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

constexpr std::size_t kDrawsPerTask = 2048;
// What one thread takes about for a draw, and for the weight of an edge.
constexpr double kDrawNanoseconds = 50;
constexpr double kPairNanoseconds = 30;
constexpr std::size_t kGroup = 32;  // draws in step, so that their cache misses overlap

std::size_t tasks_for(std::size_t num_draws) { return (num_draws + kDrawsPerTask - 1) / kDrawsPerTask; }

// Probabilities that of two nodes neither, only the first, only the second and both were brought.
struct Pair {
  double neither, first, second, both;
};

// After the draws of `a` and those of `b`. Only positive terms: no digits are lost, however rare the pair is.
Pair combined(Pair a, Pair b) {
  return {a.neither * b.neither, a.first * (b.neither + b.first) + a.neither * b.first,
          a.second * (b.neither + b.second) + a.neither * b.second,
          a.both + (a.first * (b.second + b.both) + (a.second * (b.first + b.both) + a.neither * b.both))};
}

Pair after(Pair one, std::uint64_t num_draws) {
  Pair state{1.0, 0.0, 0.0, 0.0};
  unsigned bits = 0;
  while (bits < 64 && num_draws >> bits != 0) ++bits;
  while (bits-- > 0) {
    state = combined(state, state);
    if ((num_draws >> bits & 1) != 0) state = combined(state, one);
  }
  return state;
}

// Out-edges by source, in order of their destinations.
struct Transposed {
  std::vector<std::size_t> starts;
  std::vector<std::size_t> destinations;

  template <class Index>
  explicit Transposed(const CscView<Index>& graph) : starts(graph.num_nodes + 1, 0), destinations(graph.num_edges) {
    for (std::size_t e = 0; e < graph.num_edges; ++e) ++starts[static_cast<std::size_t>(graph.indices[e]) + 1];
    for (std::size_t v = 0; v < graph.num_nodes; ++v) starts[v + 1] += starts[v];
    std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
    for (std::size_t v = 0; v < graph.num_nodes; ++v) {
      const Row row = graph.row(static_cast<std::int64_t>(v));
      for (std::uint64_t i = 0; i < row.degree; ++i) {
        const auto source = static_cast<std::size_t>(graph.indices[row.start + static_cast<std::int64_t>(i)]);
        destinations[next[source]++] = v;
      }
    }
  }
};

// How many edges lead from u to v and from v to u, for the in-neighbours u of one v at a time.
class Multiplicity {
 public:
  explicit Multiplicity(std::size_t num_nodes) : to_(num_nodes, 0), from_(num_nodes, 0) {}

  template <class Index>
  void load(const Index* sources, std::size_t degree, const Transposed& out, std::size_t v, int step) {
    for (std::size_t i = 0; i < degree; ++i) to_[static_cast<std::size_t>(sources[i])] += step;
    for (std::size_t i = out.starts[v]; i < out.starts[v + 1]; ++i) from_[out.destinations[i]] += step;
  }
  double edges_to(std::size_t u) const { return static_cast<double>(to_[u]); }
  double edges_from(std::size_t u) const { return static_cast<double>(from_[u]); }

 private:
  std::vector<int> to_;
  std::vector<int> from_;
};

}  // namespace

template <class Index>
void sum_inverse_degrees(const CscView<Index>& graph, int power, bool skip_loops, double* sums) {
  std::fill(sums, sums + graph.num_nodes, 0.0);
  for (std::size_t v = 0; v < graph.num_nodes; ++v) {
    const Row row = graph.row(static_cast<std::int64_t>(v));
    const double inverse = 1.0 / static_cast<double>(row.degree);
    const double term = power == 2 ? inverse * inverse : inverse;
    for (std::int64_t e = row.start; e < row.start + static_cast<std::int64_t>(row.degree); ++e) {
      const auto source = static_cast<std::uint64_t>(graph.indices[e]);
      if (source >= graph.num_nodes) {
        throw InputError("indices[" + std::to_string(e) + "] = " + std::to_string(graph.indices[e]) +
                         " is not a node id: expected 0 <= id < num_nodes = " + std::to_string(graph.num_nodes) +
                         "; run check_csc on the graph");
      }
      if (e + static_cast<std::int64_t>(kPrefetchDistance) < static_cast<std::int64_t>(graph.num_edges)) {
        const auto next = static_cast<std::uint64_t>(graph.indices[e + static_cast<std::int64_t>(kPrefetchDistance)]);
        if (next < graph.num_nodes) prefetch_write(sums + next);
      }
      if (!skip_loops || source != v) sums[source] += term;
    }
  }
}

void draw_by_weight(const double* sums, std::size_t num_weights, std::uint64_t key, std::int64_t* out,
                    std::size_t num_draws, int num_threads) {
  if (num_draws == 0) return;  // perhaps for there is nothing to draw from
  parallel_for(threads_for(num_threads, kDrawNanoseconds * static_cast<double>(num_draws)), tasks_for(num_draws),
               [&](std::size_t task) {
                 const std::size_t end = std::min(num_draws, (task + 1) * kDrawsPerTask);
                 for (std::size_t i = task * kDrawsPerTask; i < end; ++i) {
                   out[i] =
                       static_cast<std::int64_t>(find_weight(sums, num_weights, unit_interval(labor_variate(key, i))));
                 }
               });
}

template <class Index>
void draw_edges(const CscView<Index>& graph, const std::int64_t* rows, std::size_t num_rows, std::uint64_t key,
                std::int64_t* out, std::size_t num_draws, int num_threads) {
  parallel_for(threads_for(num_threads, kDrawNanoseconds * static_cast<double>(num_draws)), tasks_for(num_draws),
               [&](std::size_t task) {
                 const std::size_t end = std::min(num_draws, (task + 1) * kDrawsPerTask);
                 std::array<std::uint64_t, kGroup> places;
                 std::array<std::int64_t, kGroup> edges;
                 std::vector<WordStream> streams;
                 for (std::size_t first = task * kDrawsPerTask; first < end; first += kGroup) {
                   const std::size_t count = std::min(kGroup, end - first);
                   streams.clear();
                   for (std::size_t i = 0; i < count; ++i) {
                     streams.emplace_back(key, first + i);
                     places[i] = bounded(streams[i], num_rows);
                     prefetch_read(rows + places[i]);
                   }
                   for (std::size_t i = 0; i < count; ++i) {
                     out[2 * (first + i) + 1] = rows[places[i]];
                     prefetch_read(graph.indptr + rows[places[i]]);
                   }
                   for (std::size_t i = 0; i < count; ++i) {
                     const Row row = graph.row(out[2 * (first + i) + 1]);
                     if (row.degree == 0)
                       throw InputError("draw_edges: expected in-edges of every destination, got one without");
                     edges[i] = row.start + static_cast<std::int64_t>(bounded(streams[i], row.degree));
                     prefetch_read(graph.indices + edges[i]);
                   }
                   for (std::size_t i = 0; i < count; ++i)
                     out[2 * (first + i)] = static_cast<std::int64_t>(graph.indices[edges[i]]);
                 }
               });
}

template <class Index>
void saint_weights(const CscView<Index>& subgraph, DrawLaw law, float* weights, int num_threads) {
  const std::size_t num_nodes = subgraph.num_nodes;
  const auto outside = [&](Index id) { return static_cast<std::uint64_t>(id) >= num_nodes; };
  if (std::any_of(subgraph.indices, subgraph.indices + subgraph.num_edges, outside)) {
    throw InputError("saint_weights: expected indices to be local ids, below num_nodes = " + std::to_string(num_nodes));
  }
  const bool by_edge = law.num_rows != 0;
  const Transposed out(by_edge ? subgraph : CscView<Index>{subgraph.indptr, 0, nullptr, 0});
  num_threads = threads_for(num_threads, kPairNanoseconds * static_cast<double>(subgraph.num_edges));
  const auto num_parts = static_cast<std::size_t>(num_threads);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    Multiplicity multiplicity(by_edge ? num_nodes : 0);
    const auto chance = [&](std::size_t v) {  // of one edge into v
      return 1.0 / (static_cast<double>(law.num_rows) * static_cast<double>(law.degree[v]));
    };
    const std::size_t end = part_bound(num_nodes, num_parts, part + 1);
    for (std::size_t v = part_bound(num_nodes, num_parts, part); v < end; ++v) {
      const Row row = subgraph.row(static_cast<std::int64_t>(v));
      const auto degree = static_cast<std::size_t>(row.degree);
      const Index* const sources = subgraph.indices + row.start;
      const double scale = static_cast<double>(degree) / static_cast<double>(law.degree[v]);
      if (by_edge) multiplicity.load(sources, degree, out, v, 1);
      for (std::size_t i = 0; i < degree; ++i) {
        const auto u = static_cast<std::size_t>(sources[i]);
        double inverse = 1.0;  // P(v) / P(u and v)
        if (u != v) {
          double both = 0.0;
          if (by_edge) {
            both = multiplicity.edges_to(u) * chance(v);
            if (multiplicity.edges_from(u) > 0) both += multiplicity.edges_from(u) * chance(u);
          }
          const double first = std::max(0.0, law.touch[u] - both);
          const double second = std::max(0.0, law.touch[v] - both);
          const Pair pair = after({std::max(0.0, 1.0 - (first + second + both)), first, second, both}, law.num_draws);
          inverse = (pair.second + pair.both) / pair.both;
        }
        weights[static_cast<std::size_t>(row.start) + i] = static_cast<float>(scale * inverse);
      }
      if (by_edge) multiplicity.load(sources, degree, out, v, -1);
    }
  });
}

#define HEADRACE_INSTANTIATE(Index)                                                                       \
  template void sum_inverse_degrees<Index>(const CscView<Index>&, int, bool, double*);                    \
  template void draw_edges<Index>(const CscView<Index>&, const std::int64_t*, std::size_t, std::uint64_t, \
                                  std::int64_t*, std::size_t, int);                                       \
  template void saint_weights<Index>(const CscView<Index>&, DrawLaw, float*, int);
HEADRACE_INSTANTIATE(std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
