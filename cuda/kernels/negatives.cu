// Twin of ops/native/links/negatives.hpp: a warp draws the negatives of a pair, one after the other, as each takes the
// words behind those of the one before.

#include <cstdint>
#include <limits>

#include "faults.cuh"
#include "grid.cuh"
#include "random/bounded.hpp"
#include "random/stream.hpp"
#include "random/unit_interval.hpp"
#include "segments.cuh"
#include "summed_row.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kBrokenDegrees = 0;  // indptr does not ascend from 0 to num_edges, where it gives the law
constexpr int kNoEdges = 1;        // no in-edges, by which nodes are drawn
constexpr int kNoWeight = 2;       // no weight above 0
constexpr int kWrongPrefix = 3;    // of a pair
constexpr int kWrongCount = 4;     // of a pair
constexpr int kWrongTotal = 5;     // there are not as many negatives as the caller said
constexpr int kForeignPair = 6;    // its source is no node
constexpr int kForeignNode = 7;    // at a place of the order
constexpr int kBadRow = 8;         // indptr does not bound a node's row
constexpr int kNoNegative = 9;     // of a pair

constexpr std::int64_t kUniform = 0;
constexpr std::int64_t kInDegree = 1;
constexpr std::int64_t kWeight = 2;

constexpr int kTrials = 64;          // draws before all that are left are listed: NEGATIVE_TRIALS of the CPU
constexpr std::int64_t kShort = 32;  // edges of rows that one thread reads

// The nodes first, ..., last - 1, and how likely each is; see NegativeNodes.
template <class Index>
struct NegativeDraws {
  const std::int64_t* indptr;
  const Index* indices;
  std::int64_t num_edges;
  std::int64_t first;
  std::int64_t last;
  std::int64_t law;
  const double* sums;
  const std::int64_t* order;
  std::int64_t* faults;
  int lane;

  std::int64_t node_at(std::int64_t place) const {
    if (order == nullptr) return first + place;
    const std::int64_t node = order[place];
    if (node >= first && node < last) return node;
    report(faults, kForeignNode, place);
    return first;
  }

  // The row of a node; of one that is not bounded nothing.
  void find_row(std::int64_t node, std::int64_t* start, std::int64_t* stop) const {
    *start = indptr[node];
    *stop = indptr[node + 1];
    if (*start >= 0 && *start <= *stop && *stop <= num_edges) return;
    report(faults, kBadRow, node);
    *start = *stop = 0;
  }

  // Whether a node, which all lanes ask about, has an edge from a source. Four reads of a lane are on their way at
  // once.
  bool has_edge(std::int64_t source, std::int64_t node) const {
    constexpr int kReads = 4;
    std::int64_t start;
    std::int64_t stop;
    find_row(node, &start, &stop);
    for (; start < stop; start += kReads * kWarp) {
      bool found = false;
      for (int read = 0; read < kReads; ++read) {
        const std::int64_t position = start + read * kWarp + lane;
        if (position < stop) found |= static_cast<std::int64_t>(indices[position]) == source;
      }
      if (__any_sync(kAllLanes, found ? 1 : 0) != 0) return true;
    }
    return false;
  }

  // Any of the first `size` nodes; -1 where none can be.
  std::int64_t draw(WordStream* stream, std::int64_t size) const {
    if (size == 0) return -1;
    if (law == kUniform) return node_at(static_cast<std::int64_t>(bounded(*stream, static_cast<std::uint64_t>(size))));
    if (law == kWeight) {
      const double total = sums[size - 1];
      if (!(total > 0.0)) return -1;
      const std::int64_t place = count_until(sums, size, target_of(next_unit(stream), total));
      return node_at(place < size ? place : size - 1);
    }
    const std::int64_t* const begin = indptr + first;
    const auto edges = static_cast<std::uint64_t>(begin[size] - begin[0]);
    const std::int64_t edge = begin[0] + static_cast<std::int64_t>(bounded(*stream, edges));
    return first + count_until(begin + 1, size - 1, edge);
  }

  static double next_unit(WordStream* stream) {
    const std::uint64_t high = stream->next();
    return unit_interval(high << 32 | stream->next());
  }

  // Of the nodes that are left, those before the one that a walk ended at, and that one.
  struct Walked {
    std::int64_t whole = 0;  // nodes, or in-edges
    double sum = 0.0;        // of weights, in their order
    std::int64_t node = -1;
  };

  // Go through the first `size` nodes that have positive weight and no edge from a source, until their number or the
  // sum of their weights exceeds a bound.
  Walked walk(std::int64_t size, std::int64_t source, std::int64_t most, double most_weight) const {
    Walked walked;
    for (std::int64_t base = 0; base < size; base += kWarp) {
      const std::int64_t i = base + lane;
      const std::int64_t node = i < size ? node_at(i) : first;
      std::int64_t start = 0;
      std::int64_t stop = 0;
      if (i < size) find_row(node, &start, &stop);
      const double weight = law == kWeight && i < size ? sums[i] - (i == 0 ? 0.0 : sums[i - 1]) : 0.0;
      const std::int64_t degree = stop - start;
      bool is_left = i < size && (law != kInDegree || degree > 0) && (law != kWeight || weight > 0.0);
      if (degree <= kShort) {
        for (; start < stop; ++start) is_left &= static_cast<std::int64_t>(indices[start]) != source;
      }
      for (unsigned open = __ballot_sync(kAllLanes, is_left && degree > kShort ? 1 : 0); open != 0; open &= open - 1) {
        const int whose = __ffs(static_cast<int>(open)) - 1;
        const bool joined = has_edge(source, __shfl_sync(kAllLanes, node, whose));
        is_left &= !(joined && lane == whose);
      }
      for (unsigned left = __ballot_sync(kAllLanes, is_left ? 1 : 0); left != 0; left &= left - 1) {
        const int whose = __ffs(static_cast<int>(left)) - 1;
        walked.whole += law == kInDegree ? __shfl_sync(kAllLanes, degree, whose) : 1;
        walked.sum += __shfl_sync(kAllLanes, weight, whose);
        walked.node = __shfl_sync(kAllLanes, node, whose);
        if (walked.whole > most || walked.sum > most_weight) return walked;
      }
    }
    return walked;
  }

  // One of the first `size` nodes that has no edge from a source; -1 where there is none. `all` is what a walk through
  // all of those found, and its node -2 as long as there was none.
  std::int64_t draw_without(WordStream* stream, std::int64_t size, std::int64_t source, Walked* all) const {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::int64_t node = draw(stream, size);
      if (node < 0 || !has_edge(source, node)) return node;
    }
    const double infinity = std::numeric_limits<double>::infinity();
    if (all->node == -2) *all = walk(size, source, kMost, infinity);
    if (all->node < 0) return -1;
    if (law == kWeight) return walk(size, source, kMost, target_of(next_unit(stream), all->sum)).node;
    const std::uint64_t place = bounded(*stream, static_cast<std::uint64_t>(all->whole));
    return walk(size, source, static_cast<std::int64_t>(place), infinity).node;
  }
};

// Look at what each pair asks for. `ends` are running sums of `counts`; there is room for `room` negatives.
__global__ void check_negatives(const std::int64_t* indptr, std::int64_t num_nodes, std::int64_t num_edges,
                                std::int64_t first, std::int64_t last, std::int64_t law, const double* sums,
                                std::int64_t size, const std::int64_t* counts, const std::int64_t* ends,
                                std::int64_t num_pairs, std::int64_t room, const std::int64_t* sources,
                                const std::int64_t* prefix, std::int64_t* faults) {
  if (thread_of_grid() == 0) {
    if (law == kInDegree) {
      const std::int64_t start = indptr[first];
      const std::int64_t stop = indptr[last];
      if (start < 0 || stop < start || stop > num_edges) report(faults, kBrokenDegrees, 0);
      if (start == stop) report(faults, kNoEdges, 0);
    }
    if (law == kWeight && !(sums[size - 1] > 0.0)) report(faults, kNoWeight, 0);
    if (num_pairs > 0 && ends[num_pairs - 1] != room) report(faults, kWrongTotal, 0);
  }
  for_each_item(num_pairs, [&](std::int64_t i) {
    if (prefix != nullptr && (prefix[i] < 0 || prefix[i] > size)) report(faults, kWrongPrefix, i);
    if (counts[i] < 0) report(faults, kWrongCount, i);
    if (sources != nullptr && (sources[i] < 0 || sources[i] >= num_nodes)) report(faults, kForeignPair, i);
  });
}

// Draw counts[i] negatives for pair i, unless check_negatives has found a fault.
template <class Index>
__global__ void draw_negatives(const std::int64_t* indptr, const Index* indices, std::int64_t num_edges,
                               std::int64_t first, std::int64_t last, std::int64_t law, const double* sums,
                               const std::int64_t* order, std::int64_t size, const std::int64_t* counts,
                               const std::int64_t* ends, std::int64_t num_pairs, const std::int64_t* sources,
                               const std::int64_t* prefix, std::uint64_t first_pair, std::uint64_t key,
                               std::int64_t* drawn, std::int64_t* faults) {
  for (int kind = 0; kind < kForeignNode; ++kind) {
    if (faults[kind] != std::numeric_limits<std::int64_t>::max()) return;
  }
  for_each_by_warp(num_pairs, [&](std::int64_t i, int lane) {
    const NegativeDraws<Index> draws{indptr, indices, num_edges, first, last, law, sums, order, faults, lane};
    WordStream stream(key, first_pair + static_cast<std::uint64_t>(i));
    const std::int64_t own_size = prefix == nullptr ? size : prefix[i];
    typename NegativeDraws<Index>::Walked all;
    all.node = -2;
    for (std::int64_t j = ends[i] - counts[i]; j < ends[i]; ++j) {
      const std::int64_t node =
          sources == nullptr ? draws.draw(&stream, own_size) : draws.draw_without(&stream, own_size, sources[i], &all);
      if (node < 0) return report(faults, kNoNegative, i);
      if (lane == 0) drawn[j] = node;
    }
  });
}

// Of ascending numbers how many are those of a bound or below it; with `strictly` those below it.
__global__ void count_below(const std::int64_t* numbers, std::int64_t num_numbers, const std::int64_t* bounds,
                            std::int64_t num_bounds, std::int64_t strictly, std::int64_t* counts) {
  for_each_item(num_bounds, [&](std::int64_t i) {
    counts[i] =
        strictly != 0 ? count_before(numbers, num_numbers, bounds[i]) : count_until(numbers, num_numbers, bounds[i]);
  });
}

}  // namespace headrace
