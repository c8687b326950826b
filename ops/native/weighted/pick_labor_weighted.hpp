// LABOR-0 with edge weights A_ts (arXiv 2210.13339): edge t -> s is wanted with probability
// pi_ts = min(1, fanout * A_ts / A_*s), where A_*s is the sum over the row. An edge of weight 0 is never picked, and
// all others are where there are no more than `fanout` of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/ordered_bits.hpp"
#include "core/select_smallest.hpp"
#include "graphs/graph.hpp"
#include "random/unit_interval.hpp"
#include "sampling/parallel_edges.hpp"
#include "weighted/weights.hpp"

namespace headrace {

// The variate r of an edge is that of its source, or of parallel edges its own (parallel_edges.hpp).
//
// Exact: the `fanout` smallest r_t / A_ts (sequential Poisson sampling), ties by position. Poisson: each edge with
// r_t <= pi_ts. Positions ascend. The weight of a picked edge is A_ts / pi_ts, scaled so that the weights of a row
// average to 1: a plain mean of messages with these weights is the Hajek estimate of their weighted mean.
template <class Index>
class LaborWeightedPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kRow;
  static constexpr bool kReturnsWeights = true;

  LaborWeightedPicker(const Index* indices, EdgeWeights weights, const VariateKeys& keys, std::uint64_t fanout,
                      bool exact, RowRepeats<Index> repeats)
      : weights_(weights),
        fanout_(fanout),
        exact_(exact),
        edge_variates_(keys, indices),
        repeats_(std::move(repeats)) {}

  const void* beginning(Row row) const { return weights_.address(row.start); }

  // The edges of positive weight are listed in `positions` first.
  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* weights) {
    const std::size_t count = take_positive(row, weights_, positions);
    if (count <= fanout_) {
      scale(positions, count, 0.0, weights);
      return count;
    }
    if (fanout_ == 0) return 0;
    double total = 0.0;
    for (std::size_t i = 0; i < count; ++i) total += weights_[positions[i]];
    variates_.resize(static_cast<std::size_t>(row.degree));
    edge_variates_.of(row, repeats_.of(node, row), variates_.data());
    const auto variate = [&](std::int64_t position) {
      return unit_interval(variates_[static_cast<std::size_t>(position - row.start)]);
    };
    const auto fanout = static_cast<double>(fanout_);
    std::size_t picked = 0;
    if (exact_) {
      std::uint64_t* const keys = selector_.keys(count);
      for (std::size_t i = 0; i < count; ++i) keys[i] = ordered_bits(variate(positions[i]) / weights_[positions[i]]);
      selector_.select(static_cast<std::size_t>(fanout_), [&](std::size_t i) { positions[picked++] = positions[i]; });
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t position = positions[i];
        positions[picked] = position;
        picked += variate(position) <= fanout * weights_[position] / total ? 1 : 0;
      }
    }
    scale(positions, picked, total / fanout, weights);
    return picked;
  }

 private:
  // A / pi = max(A, A_*s / fanout); `smallest` is 0 where every pi is 1.
  void scale(const std::int64_t* positions, std::size_t count, double smallest, float* weights) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < count; ++i) sum += std::max(weights_[positions[i]], smallest);
    for (std::size_t i = 0; i < count; ++i) {
      weights[i] = static_cast<float>(std::max(weights_[positions[i]], smallest) * static_cast<double>(count) / sum);
    }
  }

  EdgeWeights weights_;
  std::uint64_t fanout_;
  bool exact_;
  EdgeVariates<Index> edge_variates_;
  RowRepeats<Index> repeats_;
  Buffer<std::uint64_t> variates_;
  SmallestSelector selector_;
};

}  // namespace headrace
