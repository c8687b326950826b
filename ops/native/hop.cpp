#include "hop.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
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

constexpr std::size_t kRowsPerTask = 1024;  // hubs make rows unequal: many small tasks keep threads evenly busy
constexpr std::size_t kEdgesInFlight = 64;  // picked edges whose cache lines are on their way while drawing goes on

// The picks of a contiguous piece of the frontier.
template <class Index>
struct Piece {
  Buffer<Index> neighbors;
  Buffer<std::int64_t> edges;
  Buffer<float> weights;
};

template <class Index, class Picker>
void sample_rows(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t begin, std::size_t end,
                 Picker picker, std::int64_t* counts, Piece<Index>& piece) {
  const CscView<Index>& csc = graph.csc;
  const EdgeIds edge_ids = graph.edge_ids;
  Buffer<std::int64_t>& positions = piece.edges;
  std::size_t resolved = 0;
  // Neighbours are read well after their lines were asked for; positions turn into edge ids in place.
  const auto resolve = [&](std::size_t stop) {
    piece.neighbors.ensure_spare(stop - piece.neighbors.size());
    piece.neighbors.resize(stop);
    for (; resolved < stop; ++resolved) {
      piece.neighbors[resolved] = csc.indices[positions[resolved]];
      if (!edge_ids.is_position()) positions[resolved] = edge_ids[positions[resolved]];
    }
  };
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kPrefetchDistance < end) prefetch_read(csc.indptr + frontier[i + kPrefetchDistance]);
    if (Picker::kScansRow && i + kPrefetchDistance / 2 < end) {
      const std::int64_t start = csc.indptr[frontier[i + kPrefetchDistance / 2]];
      prefetch_read(csc.indices + start);
      if (!graph.weights.none()) prefetch_read(graph.weights.address(start));
    }
    const Row row = csc.row(frontier[i]);
    const std::size_t size = positions.size();
    const std::size_t max_picks = picker.max_picks(row.degree);
    positions.ensure_spare(max_picks);
    float* weights = nullptr;
    if (Picker::kReturnsWeights) {
      piece.weights.ensure_spare(max_picks);
      weights = piece.weights.data() + size;
    }
    const std::size_t count = picker(frontier[i], row, positions.data() + size, weights);
    if (Picker::kReturnsWeights) piece.weights.resize(size + count);
    positions.resize(size + count);
    counts[i] = static_cast<std::int64_t>(count);
    for (std::size_t e = size; e < size + count; ++e) {
      prefetch_read(csc.indices + positions[e]);
      if (!edge_ids.is_position()) prefetch_read(edge_ids.address(positions[e]));
    }
    if (positions.size() > resolved + kEdgesInFlight) resolve(positions.size() - kEdgesInFlight);
  }
  resolve(positions.size());
}

template <class Index, class MakePicker>
Hop<Index> sample_with(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                       const MakePicker& make_picker, int num_threads) {
  Hop<Index> hop;
  hop.has_weights = std::decay_t<decltype(make_picker())>::kReturnsWeights;
  hop.indptr.resize(num_dst + 1);
  std::int64_t* const counts = hop.indptr.data() + 1;
  const std::size_t num_tasks = num_threads <= 1 ? 1 : std::max<std::size_t>(1, num_dst / kRowsPerTask);
  std::vector<Piece<Index>> pieces(num_tasks);
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    sample_rows(graph, frontier, part_bound(num_dst, num_tasks, task), part_bound(num_dst, num_tasks, task + 1),
                make_picker(), counts, pieces[task]);
  });
  hop.indptr[0] = 0;
  for (std::size_t i = 0; i < num_dst; ++i) hop.indptr[i + 1] += hop.indptr[i];
  if (num_tasks == 1) {
    hop.neighbors = std::move(pieces[0].neighbors);
    hop.edges = std::move(pieces[0].edges);
    hop.weights = std::move(pieces[0].weights);
    return hop;
  }
  hop.neighbors.resize(static_cast<std::size_t>(hop.indptr[num_dst]));
  hop.edges.resize(static_cast<std::size_t>(hop.indptr[num_dst]));
  if (hop.has_weights) hop.weights.resize(static_cast<std::size_t>(hop.indptr[num_dst]));
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const Piece<Index>& piece = pieces[task];
    if (piece.edges.size() == 0) return;
    const std::int64_t start = hop.indptr[part_bound(num_dst, num_tasks, task)];
    std::memcpy(hop.neighbors.data() + start, piece.neighbors.data(), piece.neighbors.size() * sizeof(Index));
    std::memcpy(hop.edges.data() + start, piece.edges.data(), piece.edges.size() * sizeof(std::int64_t));
    if (!hop.has_weights) return;
    std::memcpy(hop.weights.data() + start, piece.weights.data(), piece.weights.size() * sizeof(float));
  });
  return hop;
}

}  // namespace

template <class Index>
Hop<Index> sample_hop(const HopGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst, Rule rule,
                      std::uint64_t key, int num_threads) {
  if (rule.is_layer_wise()) return sample_layer(graph, frontier, num_dst, rule, key, num_threads);
  const auto run = [&](const auto& make_picker) {
    return sample_with(graph, frontier, num_dst, make_picker, num_threads);
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

template Hop<std::int32_t> sample_hop<std::int32_t>(const HopGraph<std::int32_t>&, const std::int64_t*, std::size_t,
                                                    Rule, std::uint64_t, int);
template Hop<std::int64_t> sample_hop<std::int64_t>(const HopGraph<std::int64_t>&, const std::int64_t*, std::size_t,
                                                    Rule, std::uint64_t, int);

}  // namespace headrace
