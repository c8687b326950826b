#include "walks/walk.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "random/bounded.hpp"
#include "random/stream.hpp"
#include "random/unit_interval.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

constexpr std::size_t kGroup = 32;  // walks in step, so that the cache misses of one overlap with those of the others
constexpr std::size_t kWalksPerTask = 1024;
constexpr double kStepNanoseconds = 20;  // what one thread takes about for a step
constexpr std::int64_t kEnded = -1;
constexpr std::int64_t kBack = -1;  // in place of an edge: the step leads to the start

struct Walker {
  WordStream stream{0, 0};
  std::int64_t start = 0;
  std::int64_t node = kEnded;
  std::int64_t edge = kBack;
};

// Each step has three parts, look, draw and arrive, between which the memory that was asked for has time to come.
template <class Index>
class Stepper {
 public:
  Stepper(const WalkGraph<Index>& graph, std::uint64_t restart) : graph_(graph), restart_(restart) {}

  // The row's address has come since the step before; by weight, ask for what its sum is made of.
  void look(const Walker& walker) const {
    if (walker.node == kEnded || graph_.weights.none()) return;
    const Row row = graph_.csc.row(walker.node);
    if (row.degree == 0) return;
    prefetch_read(graph_.weights.address(row.start + static_cast<std::int64_t>(row.degree) - 1));
    prefetch_read(graph_.weights.sums + first_sum(row) + sums_in_row(row) - 1);
  }

  void draw(Walker& walker) const {
    if (walker.node == kEnded) return;
    if (restart_ != 0 && walker.stream.next() < restart_) {
      walker.edge = kBack;
      return;
    }
    const Row row = graph_.csc.row(walker.node);
    std::uint64_t offset = 0;
    if (!pick(row, walker.stream, offset)) {
      walker.node = kEnded;
      return;
    }
    walker.edge = row.start + static_cast<std::int64_t>(offset);
    prefetch_read(graph_.csc.indices + walker.edge);
  }

  void arrive(Walker& walker) const {
    if (walker.node == kEnded) return;
    walker.node = walker.edge == kBack ? walker.start : static_cast<std::int64_t>(graph_.csc.indices[walker.edge]);
    if (static_cast<std::uint64_t>(walker.node) >= graph_.csc.num_nodes) {
      throw InputError("random_walk: indices[" + std::to_string(walker.edge) + "] = " + std::to_string(walker.node) +
                       " is not a node id: expected 0 <= id < num_nodes = " + std::to_string(graph_.csc.num_nodes) +
                       "; run check_csc on the graph");
    }
    prefetch_read(graph_.csc.indptr + walker.node);
  }

 private:
  // False where no edge can be picked.
  bool pick(Row row, WordStream& stream, std::uint64_t& offset) const {
    const EdgeWeights& weights = graph_.weights;
    if (row.degree == 0) return false;
    if (weights.narrow != nullptr) return pick_by(weights.narrow, row, stream, offset);
    if (weights.wide != nullptr) return pick_by(weights.wide, row, stream, offset);
    offset = bounded(stream, row.degree);
    return true;
  }

  template <class Weight>
  bool pick_by(const Weight* weights, Row row, WordStream& stream, std::uint64_t& offset) const {
    const SummedRow<Weight> summed(weights, graph_.weights.sums + first_sum(row), row);
    const double total = summed.total();
    if (!(total > 0.0)) return false;
    const std::uint64_t first = stream.next();
    const double u = unit_interval(first << 32 | stream.next());
    const double target = target_of(u, total);
    offset = summed.find(summed.part(u, target), target);
    return true;
  }

  WalkGraph<Index> graph_;
  std::uint64_t restart_;
};

template <class Index>
void step_all(const Stepper<Index>& stepper, Walker* walkers, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) stepper.look(walkers[i]);
  for (std::size_t i = 0; i < count; ++i) stepper.draw(walkers[i]);
  for (std::size_t i = 0; i < count; ++i) stepper.arrive(walkers[i]);
}

// Finds the most visited of a list of nodes.
class VisitCounter {
 public:
  struct Visited {
    std::int64_t node;
    std::int64_t count;
    std::size_t first;
  };

  // The `limit` nodes that are in `visits` most often, the place of the first visit deciding between equals.
  const std::vector<Visited>& top(const std::vector<std::int64_t>& visits, std::size_t limit) {
    order_.clear();
    for (std::size_t i = 0; i < visits.size(); ++i) order_.emplace_back(visits[i], i);
    std::sort(order_.begin(), order_.end());
    found_.clear();
    for (const auto& [node, place] : order_) {
      if (found_.empty() || found_.back().node != node) found_.push_back({node, 0, place});
      ++found_.back().count;
    }
    const std::size_t kept = std::min(limit, found_.size());
    const auto more_visits = [](const Visited& one, const Visited& other) {
      return one.count != other.count ? one.count > other.count : one.first < other.first;
    };
    std::partial_sort(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(kept), found_.end(), more_visits);
    found_.resize(kept);
    return found_;
  }

 private:
  std::vector<std::pair<std::int64_t, std::size_t>> order_;
  std::vector<Visited> found_;
};

// What one task found for its share of the destinations.
template <class Index>
struct Piece {
  Buffer<Index> neighbors;
  Buffer<std::int64_t> counts;
};

}  // namespace

template <class Index>
void random_walk(const WalkGraph<Index>& graph, const std::int64_t* starts, const std::int64_t* ids,
                 std::size_t num_starts, WalkLaw law, std::uint64_t key, std::int64_t* out, int num_threads) {
  const Stepper<Index> stepper(graph, law.restart);
  const std::size_t width = law.length + 1;
  const std::size_t num_tasks = (num_starts + kWalksPerTask - 1) / kWalksPerTask;
  const double nanoseconds = kStepNanoseconds * static_cast<double>(num_starts) * static_cast<double>(law.length);
  parallel_for(threads_for(num_threads, nanoseconds), num_tasks, [&](std::size_t task) {
    const std::size_t end = std::min(num_starts, (task + 1) * kWalksPerTask);
    std::array<Walker, kGroup> walkers;
    for (std::size_t first = task * kWalksPerTask; first < end; first += kGroup) {
      const std::size_t count = std::min(kGroup, end - first);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t start = starts[first + i];
        const auto id = ids == nullptr ? first + i : static_cast<std::uint64_t>(ids[first + i]);
        walkers[i] = {WordStream(key, id), start, start, kBack};
        prefetch_read(graph.csc.indptr + start);
        out[(first + i) * width] = start;
      }
      for (std::size_t step = 1; step < width; ++step) {
        step_all(stepper, walkers.data(), count);
        for (std::size_t i = 0; i < count; ++i) out[(first + i) * width + step] = walkers[i].node;
      }
    }
  });
}

template <class Index>
Visits<Index> pinsage_neighbors(const WalkGraph<Index>& graph, const std::int64_t* frontier, std::size_t num_dst,
                                std::size_t num_neighbors, std::size_t num_walks, WalkLaw law, std::uint64_t key,
                                int num_threads) {
  const Stepper<Index> stepper(graph, law.restart);
  Visits<Index> result;
  result.indptr.resize(num_dst + 1);
  std::int64_t* const degrees = result.indptr.data() + 1;
  const std::size_t num_tasks = (num_dst + kGroup - 1) / kGroup;  // a group of destinations is work enough
  const double nanoseconds = kStepNanoseconds * static_cast<double>(num_dst) * static_cast<double>(num_walks) *
                             static_cast<double>(law.length);
  std::vector<Piece<Index>> pieces(num_tasks);
  parallel_for(threads_for(num_threads, nanoseconds), num_tasks, [&](std::size_t task) {
    const std::size_t first = task * kGroup;
    const std::size_t count = std::min(kGroup, num_dst - first);
    std::array<Walker, kGroup> walkers;
    std::array<std::vector<std::int64_t>, kGroup> visits;
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t node = frontier[first + i];
      walkers[i] = {WordStream(key, static_cast<std::uint64_t>(node)), node, node, kBack};
    }
    for (std::size_t walk = 0; walk < num_walks; ++walk) {
      for (std::size_t i = 0; i < count; ++i) {
        walkers[i].node = walkers[i].start;
        prefetch_read(graph.csc.indptr + walkers[i].start);
      }
      for (std::size_t step = 0; step < law.length; ++step) {
        step_all(stepper, walkers.data(), count);
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t node = walkers[i].node;
          if (node != kEnded && node != walkers[i].start) visits[i].push_back(node);
        }
      }
    }
    VisitCounter counter;
    for (std::size_t i = 0; i < count; ++i) {
      const auto& top = counter.top(visits[i], num_neighbors);
      for (const auto& visited : top) {
        pieces[task].neighbors.push_back(static_cast<Index>(visited.node));
        pieces[task].counts.push_back(visited.count);
      }
      degrees[first + i] = static_cast<std::int64_t>(top.size());
    }
  });
  result.indptr[0] = 0;
  for (std::size_t i = 0; i < num_dst; ++i) result.indptr[i + 1] += result.indptr[i];
  for (const Piece<Index>& piece : pieces) {
    const std::size_t size = result.counts.size();
    const std::size_t more = piece.counts.size();
    if (more == 0) continue;
    result.neighbors.ensure_spare(more);
    result.counts.ensure_spare(more);
    std::memcpy(result.neighbors.data() + size, piece.neighbors.data(), more * sizeof(Index));
    std::memcpy(result.counts.data() + size, piece.counts.data(), more * sizeof(std::int64_t));
    result.neighbors.resize(size + more);
    result.counts.resize(size + more);
  }
  return result;
}

#define HEADRACE_INSTANTIATE(Index)                                                                                \
  template void random_walk<Index>(const WalkGraph<Index>&, const std::int64_t*, const std::int64_t*, std::size_t, \
                                   WalkLaw, std::uint64_t, std::int64_t*, int);                                    \
  template Visits<Index> pinsage_neighbors<Index>(const WalkGraph<Index>&, const std::int64_t*, std::size_t,       \
                                                  std::size_t, std::size_t, WalkLaw, std::uint64_t, int);
HEADRACE_INSTANTIATE(std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
