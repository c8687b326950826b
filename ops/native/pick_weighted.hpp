// Picks of in-edges by weight, destination by destination. An edge of weight 0 is never picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "buffer.hpp"
#include "graph.hpp"
#include "picked_set.hpp"
#include "picker.hpp"
#include "prefetch.hpp"
#include "running_sums.hpp"
#include "select_smallest.hpp"
#include "stream.hpp"
#include "unit_interval.hpp"
#include "weights.hpp"

namespace headrace {

inline double next_variate(WordStream& stream) {
  const std::uint64_t first = stream.next();
  return unit_interval(first << 32 | stream.next());
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

// The running sums of rows: those of the graph if it has them, or made for the row at hand.
class RowSums {
 public:
  explicit RowSums(EdgeWeights weights) : weights_(weights) {}

  const double* of(Row row) {
    if (weights_.sums != nullptr) return weights_.sums + row.start;
    made_.resize(static_cast<std::size_t>(row.degree));
    sum_row(weights_, row, made_.data());
    return made_.data();
  }

  // Announce what `num_draws` draws will read of a row further on.
  void announce(std::uint64_t key, std::int64_t vertex, Row row, std::uint64_t num_draws) const {
    if (weights_.sums == nullptr || row.degree == 0) return;
    constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(double);
    const double* const sums = weights_.sums + row.start;
    if (row.degree <= kWholeRow) {
      for (std::uint64_t i = 0; i < row.degree + kPerLine; i += kPerLine) prefetch_read(sums + i);
      return;
    }
    // To draw twice takes less time than to wait for the memory.
    prefetch_read(sums + row.degree - 1);
    WordStream stream(key, static_cast<std::uint64_t>(vertex));
    for (std::uint64_t i = 0; i < std::min(num_draws, kDrawsAhead); ++i) {
      prefetch_read(sums + guess_edge(next_variate(stream), static_cast<std::size_t>(row.degree)));
    }
  }

 private:
  static constexpr std::uint64_t kWholeRow = 80;  // rows up to here are announced from end to end
  static constexpr std::uint64_t kDrawsAhead = 32;

  EdgeWeights weights_;
  Buffer<double> made_;
};

// Without replacement: draws by weight, one after the other, of which those that hit an edge already picked do not
// count. Draw i takes words 2i and 2i + 1 of the destination's stream. Where the draws of a row would be too many, all
// of it is looked at: what is still wanted comes from an exponential race of the edges not picked (Efraimidis and
// Spirakis, "Weighted random sampling with a reservoir", 2006), in which edge i of the row runs for -ln(u_i) / weight.
// The race has the law of the draws that it stands for, so where it sets in changes nothing about the law of the picks.
class WeightedPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kKnowsCount = false;
  static constexpr bool kReturnsWeights = false;

  WeightedPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights), key_(key), fanout_(fanout), sums_(weights) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  void announce(std::int64_t vertex, Row row) const {
    if (row.degree > fanout_) {
      sums_.announce(key_, vertex, row, fanout_);
    } else if (row.degree != 0) {
      prefetch_read(weights_.address(row.start));
      prefetch_read(weights_.address(row.start + static_cast<std::int64_t>(row.degree) - 1));
    }
  }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_positive(row, weights_, positions);
    if (fanout_ == 0) return 0;
    const std::uint64_t num_draws = most_draws(row.degree);
    if (row.degree + num_draws > std::uint64_t{1} << 33) {
      throw GraphError("node " + std::to_string(vertex) + " has " + std::to_string(row.degree) +
                       " in-edges, too many for the words of its stream");
    }
    const auto wanted = static_cast<std::size_t>(fanout_);
    const auto degree = static_cast<std::size_t>(row.degree);
    picked_set_.begin(positions, wanted);
    std::size_t picked = 0;
    if (num_draws != 0) {
      const double* const sums = sums_.of(row);
      if (!(sums[degree - 1] > 0.0)) return 0;
      WordStream stream(key_, static_cast<std::uint64_t>(vertex));
      for (std::uint64_t draw = 0; draw < num_draws; ++draw) {
        const std::int64_t position =
            row.start + static_cast<std::int64_t>(find_edge(sums, degree, next_variate(stream)));
        if (!picked_set_.insert(picked, position)) continue;
        positions[picked++] = position;
        if (picked == wanted) return picked;
      }
    }
    return race(vertex, row, num_draws, picked, positions);
  }

 private:
  // Draws without success are few unless nearly the whole row is wanted. A multiple of 2: whole blocks of words.
  std::uint64_t most_draws(std::uint64_t degree) const { return degree - fanout_ < degree / 8 ? 0 : 4 * fanout_ + 16; }

  // Behind the `picked` positions write those of the edges that win the race, in ascending order.
  std::size_t race(std::int64_t vertex, Row row, std::uint64_t num_draws, std::size_t picked, std::int64_t* positions) {
    racing_.resize(static_cast<std::size_t>(row.degree));
    std::size_t count = 0;
    for (std::uint64_t i = 0; i < row.degree; ++i) {
      const std::int64_t position = row.start + static_cast<std::int64_t>(i);
      if (weights_[position] > 0.0 && !picked_set_.contains(picked, position)) racing_[count++] = position;
    }
    const std::size_t wanted = static_cast<std::size_t>(fanout_) - picked;
    if (count <= wanted) {
      std::copy(racing_.data(), racing_.data() + count, positions + picked);
      return picked + count;
    }
    std::uint64_t* const keys = selector_.keys(count);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex), static_cast<std::uint32_t>(num_draws / 2));
    std::int64_t position = row.start;
    for (std::size_t i = 0; i < count; ++i, ++position) {
      for (; position < racing_[i]; ++position) next_variate(stream);
      keys[i] = ordered_bits(negative_log(next_variate(stream)) / weights_[position]);
    }
    selector_.select(wanted, [&](std::size_t i) { positions[picked++] = racing_[i]; });
    return picked;
  }

  EdgeWeights weights_;
  std::uint64_t key_;
  std::uint64_t fanout_;
  RowSums sums_;
  PickedSet picked_set_;
  Buffer<std::int64_t> racing_;
  SmallestSelector selector_;
};

// With replacement: `fanout` draws; draw i takes words 2i and 2i + 1 of the destination's stream.
class WeightedReplacementPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kKnowsCount = false;
  static constexpr bool kReturnsWeights = false;

  WeightedReplacementPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : key_(key), fanout_(fanout), sums_(weights) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  void announce(std::int64_t vertex, Row row) const { sums_.announce(key_, vertex, row, fanout_); }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    const auto degree = static_cast<std::size_t>(row.degree);
    if (degree == 0) return 0;
    const double* const sums = sums_.of(row);
    if (!(sums[degree - 1] > 0.0)) return 0;
    const auto count = static_cast<std::size_t>(fanout_);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex));
    for (std::size_t i = 0; i < count; ++i) {
      positions[i] = row.start + static_cast<std::int64_t>(find_edge(sums, degree, next_variate(stream)));
    }
    return count;
  }

 private:
  std::uint64_t key_;
  std::uint64_t fanout_;
  RowSums sums_;
};

}  // namespace headrace
