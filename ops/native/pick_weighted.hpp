// Picks of in-edges by weight, destination by destination. An edge of weight 0 is never picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "buffer.hpp"
#include "graph.hpp"
#include "select_smallest.hpp"
#include "stream.hpp"
#include "unit_interval.hpp"
#include "weights.hpp"

namespace headrace {

inline std::uint64_t next_variate(WordStream& stream) {
  const std::uint64_t first = stream.next();
  return first << 32 | stream.next();
}

// Write the positions of the row's edges of positive weight; returns how many there are.
inline std::size_t take_positive(Row row, EdgeWeights weights, std::int64_t* positions) {
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    const std::int64_t position = row.start + static_cast<std::int64_t>(i);
    if (weights[position] > 0.0) positions[count++] = position;
  }
  return count;
}

// Without replacement: an exponential race (Efraimidis and Spirakis, "Weighted random sampling with a reservoir",
// 2006). Edge i of the row runs for -ln(u_i) / weight, with u_i of words 2i and 2i + 1 of the destination's stream; the
// `fanout` first ones are picked, in ascending order of position. The picks have the law of successive draws by weight.
class WeightedPicker {
 public:
  static constexpr bool kScansRow = true;
  static constexpr bool kKnowsCount = false;
  static constexpr bool kReturnsWeights = false;

  WeightedPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights), key_(key), fanout_(fanout) {}

  // The edges of positive weight are listed in `positions` first.
  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    const std::size_t count = take_positive(row, weights_, positions);
    if (count <= fanout_) return count;
    if (fanout_ == 0) return 0;
    if (row.degree >> 33 != 0) {
      throw GraphError("node " + std::to_string(vertex) +
                       " has more than 2^33 in-edges, more than its stream has words");
    }
    std::uint64_t* const keys = selector_.keys(count);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex));
    std::int64_t position = row.start;
    for (std::size_t i = 0; i < count; ++i, ++position) {
      for (; position < positions[i]; ++position) next_variate(stream);
      keys[i] = ordered_bits(negative_log(unit_interval(next_variate(stream))) / weights_[position]);
    }
    std::size_t picked = 0;
    selector_.select(static_cast<std::size_t>(fanout_), [&](std::size_t i) { positions[picked++] = positions[i]; });
    return picked;
  }

 private:
  EdgeWeights weights_;
  std::uint64_t key_;
  std::uint64_t fanout_;
  SmallestSelector selector_;
};

// With replacement: `fanout` draws, each the first edge whose running sum of weights exceeds u * total.
class WeightedReplacementPicker {
 public:
  static constexpr bool kScansRow = true;
  static constexpr bool kKnowsCount = false;
  static constexpr bool kReturnsWeights = false;

  WeightedReplacementPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights), key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    const auto degree = static_cast<std::size_t>(row.degree);
    sums_.resize(degree);
    double total = 0.0;
    for (std::size_t i = 0; i < degree; ++i) {
      total += weights_[row.start + static_cast<std::int64_t>(i)];
      sums_[i] = total;
    }
    if (!(total > 0.0)) return 0;
    const auto count = static_cast<std::size_t>(fanout_);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex));
    for (std::size_t i = 0; i < count; ++i) {
      const double target = unit_interval(next_variate(stream)) * total;
      const double* const sums = sums_.data();
      const double* const end = sums + degree;
      const double* found = std::upper_bound(sums, end, target);
      // Among the smallest doubles the product rounds up to the total: then it is the last edge of positive weight.
      if (found == end) found = std::lower_bound(sums, end, total);
      positions[i] = row.start + (found - sums);
    }
    return count;
  }

 private:
  EdgeWeights weights_;
  std::uint64_t key_;
  std::uint64_t fanout_;
  Buffer<double> sums_;
};

}  // namespace headrace
