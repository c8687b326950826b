#include "hop.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
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

constexpr std::size_t kRowsPerTask = 1024;    // hubs make rows unequal: many small tasks keep threads evenly busy
constexpr std::size_t kRowsAhead = 4;         // rows that are on their way while one is scanned ...
constexpr std::uint64_t kLinesAhead = 16;     // ... with so many cache lines of each
constexpr std::size_t kEdgesInFlight = 64;    // picked edges whose cache lines are on their way while drawing goes on
constexpr std::size_t kPicksInFlight = 1024;  // the same where picks wait for a whole lot: they fit in a core's cache
constexpr std::size_t kUsualPicks = 32;       // of a row; what room is made for

// Where the picks of consecutive rows go.
template <class Index>
struct Sink {
  Index* neighbors;
  std::int64_t* edges;
};

template <class Index>
void announce_picks(const HopGraph<Index>& graph, const std::int64_t* positions, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    prefetch_read(graph.csc.indices + positions[i]);
    if (!graph.edge_ids.is_position()) prefetch_read(graph.edge_ids.address(positions[i]));
  }
}

// Look up what is at the picked positions from `first` on; positions turn into edge ids in place.
template <class Index>
void look_up(const HopGraph<Index>& graph, const Sink<Index>& sink, std::size_t first, std::size_t end) {
  for (std::size_t e = first; e < end; ++e) {
    std::int64_t& edge = sink.edges[e];
    sink.neighbors[e] = graph.csc.indices[edge];
    if (!graph.edge_ids.is_position()) edge = graph.edge_ids[edge];
  }
}

// Looks up what is at the picked positions some time after asking for the memory.
template <class Index>
class Lookup {
 public:
  Lookup(const HopGraph<Index>& graph, const Sink<Index>& sink) : graph_(graph), sink_(sink) {}

  // Ask for the picks up to `count`, and finish those asked for long enough ago.
  void announce(std::size_t count) {
    announce_picks(graph_, sink_.edges + announced_, count - announced_);
    announced_ = count;
    if (count > kEdgesInFlight) finish(count - kEdgesInFlight);
  }

  void finish(std::size_t count) {
    if (count <= finished_) return;
    look_up(graph_, sink_, finished_, count);
    finished_ = count;
  }

 private:
  const HopGraph<Index>& graph_;
  Sink<Index> sink_;
  std::size_t announced_ = 0;
  std::size_t finished_ = 0;
};

// A stretch of the frontier, and where the in-edges of its vertices are.
struct Frontier {
  const std::int64_t* vertices;
  const Row* rows;
  std::size_t begin;
  std::size_t end;
};

// Announce the memory that the picker will read of a row further on.
template <class Picker, class Index>
void announce_row(const HopGraph<Index>& graph, const Frontier& frontier, const Picker& picker, std::size_t i) {
  if (Picker::kAhead == Ahead::kNothing || i + kRowsAhead >= frontier.end) return;
  const Row row = frontier.rows[i + kRowsAhead];
  if constexpr (Picker::kAhead == Ahead::kPicker) {
    picker.announce(frontier.vertices[i + kRowsAhead], row);
  } else {
    constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(Index);
    // The hardware follows a long row by itself once it has seen its beginning.
    for (std::uint64_t k = 0; k < std::min(row.degree, kLinesAhead * kPerLine); k += kPerLine) {
      const std::int64_t position = row.start + static_cast<std::int64_t>(k);
      prefetch_read(graph.csc.indices + position);
      if (!graph.weights.none()) prefetch_read(graph.weights.address(position));
    }
  }
}

// Rules that pick a known number of edges write them where they belong at once.
template <class Index, class Picker>
void sample_in_place(const HopGraph<Index>& graph, const Frontier& frontier, Picker picker, const std::int64_t* indptr,
                     const Sink<Index>& all) {
  const std::int64_t start = indptr[frontier.begin];
  const Sink<Index> sink{all.neighbors + start, all.edges + start};
  Lookup<Index> lookup(graph, sink);
  std::size_t picked = 0;
  for (std::size_t i = frontier.begin; i < frontier.end; ++i) {
    announce_row(graph, frontier, picker, i);
    picked += picker(frontier.vertices[i], frontier.rows[i], sink.edges + picked, nullptr);
    lookup.announce(picked);
  }
  lookup.finish(picked);
}

// The picks of a contiguous piece of the frontier.
template <class Index>
struct Piece {
  Buffer<Index> neighbors;
  Buffer<std::int64_t> edges;
  Buffer<float> weights;
};

// Look up the picks from `first` on, whose memory has been announced.
template <class Index>
void look_up(const HopGraph<Index>& graph, Piece<Index>& piece, std::size_t first) {
  const std::size_t num_edges = piece.edges.size();
  piece.neighbors.ensure_spare(num_edges - first);
  piece.neighbors.resize(num_edges);
  look_up(graph, Sink<Index>{piece.neighbors.data(), piece.edges.data()}, first, num_edges);
}

template <class Index, class Picker>
void sample_piece(const HopGraph<Index>& graph, const Frontier& frontier, Picker picker, std::int64_t* counts,
                  Piece<Index>& piece) {
  // Where a rule may pick whole rows it rarely does.
  std::size_t expected = 0;
  for (std::size_t i = frontier.begin; i < frontier.end; ++i) {
    expected += std::min(picker.max_picks(frontier.rows[i].degree), kUsualPicks);
  }
  piece.edges.ensure_spare(expected);
  piece.neighbors.ensure_spare(expected);
  if (Picker::kReturnsWeights) piece.weights.ensure_spare(expected);
  std::size_t looked_up = 0;
  for (std::size_t i = frontier.begin; i < frontier.end; ++i) {
    announce_row(graph, frontier, picker, i);
    const Row row = frontier.rows[i];
    const std::size_t size = piece.edges.size();
    const std::size_t max_picks = picker.max_picks(row.degree);
    piece.edges.ensure_spare(max_picks);
    float* weights = nullptr;
    if (Picker::kReturnsWeights) {
      piece.weights.ensure_spare(max_picks);
      weights = piece.weights.data() + size;
    }
    const std::size_t count = picker(frontier.vertices[i], row, piece.edges.data() + size, weights);
    if (Picker::kReturnsWeights) piece.weights.resize(size + count);
    piece.edges.resize(size + count);
    counts[i] = static_cast<std::int64_t>(count);
    announce_picks(graph, piece.edges.data() + size, count);
    if (size + count - looked_up < kPicksInFlight) continue;
    look_up(graph, piece, looked_up);
    looked_up = piece.edges.size();
  }
  look_up(graph, piece, looked_up);
}

template <class Index>
Buffer<Row> find_rows(const CscView<Index>& csc, const std::int64_t* vertices, std::size_t num_dst,
                      std::size_t num_tasks, int num_threads) {
  Buffer<Row> rows(num_dst);
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) {
      if (i + kPrefetchDistance < end) prefetch_read(csc.indptr + vertices[i + kPrefetchDistance]);
      rows[i] = csc.row(vertices[i]);
    }
  });
  return rows;
}

// The running sum of the picks of each row. Draws with replacement can be more than 64 bits count.
template <class Picker>
void count_picks(const Picker& picker, const Buffer<Row>& rows, Buffer<std::int64_t>& indptr) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  std::size_t total = 0;
  indptr[0] = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t count = picker.max_picks(rows[i].degree);
    if (count > kMost - total) throw std::bad_alloc();
    total += count;
    indptr[i + 1] = static_cast<std::int64_t>(total);
  }
}

void to_running_sum(Buffer<std::int64_t>& indptr) {
  indptr[0] = 0;
  for (std::size_t i = 1; i < indptr.size(); ++i) indptr[i] += indptr[i - 1];
}

template <class Index, class MakePicker>
Hop<Index> sample_with(const HopGraph<Index>& graph, const std::int64_t* vertices, std::size_t num_dst,
                       const MakePicker& make_picker, int num_threads) {
  using Picker = std::decay_t<decltype(make_picker())>;
  Hop<Index> hop;
  hop.has_weights = Picker::kReturnsWeights;
  hop.indptr.resize(num_dst + 1);
  const std::size_t num_tasks = num_threads <= 1 ? 1 : std::max<std::size_t>(1, num_dst / kRowsPerTask);
  const Buffer<Row> rows = find_rows(graph.csc, vertices, num_dst, num_tasks, num_threads);
  const auto part = [&](std::size_t task) {
    return Frontier{vertices, rows.data(), part_bound(num_dst, num_tasks, task),
                    part_bound(num_dst, num_tasks, task + 1)};
  };
  if constexpr (Picker::kKnowsCount) {
    count_picks(make_picker(), rows, hop.indptr);
    const auto num_edges = static_cast<std::size_t>(hop.indptr[num_dst]);
    hop.neighbors.resize(num_edges);
    hop.edges.resize(num_edges);
    const Sink<Index> sink{hop.neighbors.data(), hop.edges.data()};
    parallel_for(num_threads, num_tasks,
                 [&](std::size_t task) { sample_in_place(graph, part(task), make_picker(), hop.indptr.data(), sink); });
    return hop;
  }
  std::vector<Piece<Index>> pieces(num_tasks);
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    sample_piece(graph, part(task), make_picker(), hop.indptr.data() + 1, pieces[task]);
  });
  to_running_sum(hop.indptr);
  if (num_tasks == 1) {
    hop.neighbors = std::move(pieces[0].neighbors);
    hop.edges = std::move(pieces[0].edges);
    hop.weights = std::move(pieces[0].weights);
    return hop;
  }
  const auto num_edges = static_cast<std::size_t>(hop.indptr[num_dst]);
  hop.neighbors.resize(num_edges);
  hop.edges.resize(num_edges);
  if (hop.has_weights) hop.weights.resize(num_edges);
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
