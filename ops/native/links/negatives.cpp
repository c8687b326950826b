#include "links/negatives.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "core/errors.hpp"
#include "core/id_set.hpp"
#include "core/parallel.hpp"
#include "random/bounded.hpp"
#include "random/stream.hpp"
#include "random/unit_interval.hpp"
#include "sampling/hop.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

using Law = NegativeNodes::Law;

constexpr std::size_t kPairsPerTask = 128;
constexpr double kDrawNanoseconds = 50;

double next_unit(WordStream& stream) {
  const std::uint64_t high = stream.next();
  return unit_interval(high << 32 | stream.next());
}

template <class Index>
class NegativeDraws {
 public:
  NegativeDraws(const CscView<Index>& csc, const NegativeNodes& nodes) : csc_(csc), nodes_(nodes) {}

  // Any of the first `size` nodes; -1 where none can be.
  std::int64_t draw(WordStream& stream, std::size_t size) const {
    if (size == 0) return -1;
    if (nodes_.law == Law::kUniform) return node_at(bounded(stream, size));
    if (nodes_.law == Law::kWeight) {
      return nodes_.sums[size - 1] > 0.0 ? node_at(find_weight(nodes_.sums, size, next_unit(stream))) : -1;
    }
    const std::int64_t* const begin = csc_.indptr + nodes_.first;
    const auto num_edges = static_cast<std::uint64_t>(begin[size] - begin[0]);
    const std::int64_t edge = begin[0] + static_cast<std::int64_t>(bounded(stream, num_edges));
    // Behind the last row that begins there or before: those that are empty begin where the next one does.
    return nodes_.first + (std::upper_bound(begin + 1, begin + size, edge) - (begin + 1));
  }

  // One of them without an edge from `source`; -1 where there is none.
  std::int64_t draw_without(WordStream& stream, std::size_t size, std::int64_t source) {
    for (std::size_t trial = 0; trial < kNegativeTrials; ++trial) {
      const std::int64_t node = draw(stream, size);
      if (node < 0) return -1;
      if (!has_edge(source, node)) return node;
    }
    if (listed_for_ != source || listed_of_ != size) list(source, size);
    if (left_.size() == 0) return -1;
    if (nodes_.law == Law::kUniform) return left_[bounded(stream, left_.size())];
    if (nodes_.law == Law::kWeight) return left_[find_weight(sums_.data(), sums_.size(), next_unit(stream))];
    const auto edge = static_cast<std::int64_t>(bounded(stream, static_cast<std::uint64_t>(ends_[ends_.size() - 1])));
    return left_[static_cast<std::size_t>(std::upper_bound(ends_.data(), ends_.data() + ends_.size(), edge) -
                                          ends_.data())];
  }

 private:
  std::int64_t node_at(std::size_t place) const {
    if (nodes_.order == nullptr) return nodes_.first + static_cast<std::int64_t>(place);
    const std::int64_t node = nodes_.order[place];
    if (node >= nodes_.first && node < nodes_.last) return node;
    throw InputError("draw_negatives: expected an order of nodes " + std::to_string(nodes_.first) + " to " +
                     std::to_string(nodes_.last - 1) + ", got " + std::to_string(node));
  }

  bool has_edge(std::int64_t source, std::int64_t node) const {
    const Row row = csc_.row(node);
    const Index* const begin = csc_.indices + row.start;
    return std::find_if(begin, begin + row.degree, [=](Index one) { return one == source; }) != begin + row.degree;
  }

  // List those of the first nodes that have positive weight and no edge from a source, with their running sums.
  void list(std::int64_t source, std::size_t size) {
    left_.resize(0);
    ends_.resize(0);
    sums_.resize(0);
    std::int64_t end = 0;
    double sum = 0.0;
    // What is known of nodes, which an order may have several times.
    const auto num_nodes = static_cast<std::size_t>(nodes_.last - nodes_.first);
    IdSet joined(nodes_.order == nullptr ? 0 : std::min(size, num_nodes));
    for (std::size_t i = 0; i < size; ++i) {
      const std::int64_t node = node_at(i);
      const auto degree = static_cast<std::int64_t>(csc_.row(node).degree);
      const double weight = nodes_.law == Law::kWeight ? nodes_.sums[i] - (i == 0 ? 0.0 : nodes_.sums[i - 1]) : 0.0;
      if (nodes_.law == Law::kInDegree && degree == 0) continue;
      if (nodes_.law == Law::kWeight && !(weight > 0.0)) continue;
      std::int64_t known = nodes_.order == nullptr ? IdSet::kNone : joined.find(node);
      if (known == IdSet::kNone) known = has_edge(source, node) ? 1 : 0;
      if (nodes_.order != nullptr) joined.insert(node, known);
      if (known == 1) continue;
      left_.push_back(node);
      if (nodes_.law == Law::kInDegree) ends_.push_back(end += degree);
      if (nodes_.law == Law::kWeight) sums_.push_back(sum += weight);
    }
    listed_for_ = source;
    listed_of_ = size;
  }

  CscView<Index> csc_;
  NegativeNodes nodes_;
  std::int64_t listed_for_ = -1;
  std::size_t listed_of_ = 0;
  Buffer<std::int64_t> left_;
  Buffer<std::int64_t> ends_;  // running sums of in-degrees
  Buffer<double> sums_;
};

// Refuse nodes of which none can be drawn, and draws that no memory holds.
template <class Index>
void check(const CscView<Index>& csc, const NegativeNodes& nodes, const std::int64_t* counts,
           const std::int64_t* prefix, std::size_t num_pairs) {
  const auto num_nodes = static_cast<std::int64_t>(csc.num_nodes);
  if (nodes.first < 0 || nodes.first >= nodes.last || nodes.last > num_nodes) {
    throw InputError("draw_negatives: expected 0 <= first < last <= num_nodes = " + std::to_string(num_nodes) +
                     ", got first = " + std::to_string(nodes.first) + ", last = " + std::to_string(nodes.last));
  }
  if (nodes.law == Law::kInDegree) {
    const std::int64_t start = csc.indptr[nodes.first];
    const std::int64_t end = csc.indptr[nodes.last];
    if (start < 0 || end < start || static_cast<std::uint64_t>(end) > csc.num_edges) {
      throw InputError("draw_negatives: indptr does not ascend from 0 to num_edges; run check_csc on the graph");
    }
    if (start == end) {
      throw InputError("draw_negatives: expected in-edges to draw nodes by degree, got nodes without any");
    }
  }
  if (nodes.law == Law::kWeight && !(nodes.sums[nodes.size - 1] > 0.0)) {
    throw InputError("draw_negatives: expected some weight above 0, got none");
  }
  if ((nodes.order != nullptr || prefix != nullptr) && nodes.law == Law::kInDegree) {
    throw InputError("draw_negatives: expected nodes in their own order to draw by degree, got an order or a prefix");
  }
  for (std::size_t i = 0; prefix != nullptr && i < num_pairs; ++i) {
    if (prefix[i] >= 0 && static_cast<std::uint64_t>(prefix[i]) <= nodes.size) continue;
    throw InputError("draw_negatives: expected prefixes of 0 to " + std::to_string(nodes.size) + " nodes, got " +
                     std::to_string(prefix[i]));
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < num_pairs; ++i) {
    if (counts[i] < 0) {
      throw InputError("draw_negatives: expected counts of at least 0, got " + std::to_string(counts[i]));
    }
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (counts[i] > kMost - total) throw std::bad_alloc();
    total += counts[i];
  }
}

}  // namespace

template <class Index>
Buffer<std::int64_t> draw_negatives(const CscView<Index>& csc, const NegativeNodes& nodes, const std::int64_t* counts,
                                    std::size_t num_pairs, const std::int64_t* sources, const std::int64_t* prefix,
                                    std::uint64_t first_pair, std::uint64_t key, int num_threads) {
  check(csc, nodes, counts, prefix, num_pairs);
  if (sources != nullptr) check_frontier(sources, num_pairs, csc.num_nodes, "draw_negatives: sources");
  Buffer<std::size_t> starts(num_pairs + 1);
  starts[0] = 0;
  for (std::size_t i = 0; i < num_pairs; ++i) starts[i + 1] = starts[i] + static_cast<std::size_t>(counts[i]);
  Buffer<std::int64_t> drawn(starts[num_pairs]);
  const std::size_t num_tasks = (num_pairs + kPairsPerTask - 1) / kPairsPerTask;
  num_threads = threads_for(num_threads, kDrawNanoseconds * static_cast<double>(drawn.size()));
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    NegativeDraws<Index> draws(csc, nodes);
    const std::size_t end = part_bound(num_pairs, num_tasks, task + 1);
    for (std::size_t i = part_bound(num_pairs, num_tasks, task); i < end; ++i) {
      WordStream stream(key, first_pair + i);
      const std::size_t size = prefix == nullptr ? nodes.size : static_cast<std::size_t>(prefix[i]);
      for (std::size_t j = starts[i]; j < starts[i + 1]; ++j) {
        drawn[j] = sources == nullptr ? draws.draw(stream, size) : draws.draw_without(stream, size, sources[i]);
        if (drawn[j] >= 0) continue;
        if (sources == nullptr || size == 0 || (nodes.law == Law::kWeight && !(nodes.sums[size - 1] > 0.0))) {
          throw InputError("draw_negatives: pair " + std::to_string(first_pair + i) + " has no negative: none of the " +
                           std::to_string(size) + " nodes that it may have can be drawn; leave out such pairs");
        }
        throw InputError("draw_negatives: pair " + std::to_string(first_pair + i) + " has no negative: node " +
                         std::to_string(sources[i]) +
                         " has edges to all nodes that can be drawn; leave out such pairs, or do not reject edges");
      }
    }
  });
  return drawn;
}

template Buffer<std::int64_t> draw_negatives<std::int32_t>(const CscView<std::int32_t>&, const NegativeNodes&,
                                                           const std::int64_t*, std::size_t, const std::int64_t*,
                                                           const std::int64_t*, std::uint64_t, std::uint64_t, int);
template Buffer<std::int64_t> draw_negatives<std::int64_t>(const CscView<std::int64_t>&, const NegativeNodes&,
                                                           const std::int64_t*, std::size_t, const std::int64_t*,
                                                           const std::int64_t*, std::uint64_t, std::uint64_t, int);

}  // namespace headrace
