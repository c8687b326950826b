// Uniform picks of in-edges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "graphs/graph.hpp"
#include "random/bounded.hpp"
#include "random/distinct_draws.hpp"
#include "sampling/picked_set.hpp"
#include "sampling/picker.hpp"

namespace headrace {

class AllPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kNothing;
  static constexpr bool kReturnsWeights = false;

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }
  std::size_t operator()(std::int64_t /*node*/, Row row, std::int64_t* positions, float* /*weights*/) {
    return take_all(row, positions);
  }
};

// The last edges of a row, in CSC order.
class LatestPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kNothing;
  static constexpr bool kReturnsWeights = false;

  explicit LatestPicker(std::uint64_t fanout) : fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }
  std::size_t operator()(std::int64_t /*node*/, Row row, std::int64_t* positions, float* /*weights*/) {
    const std::uint64_t count = std::min(row.degree, fanout_);
    return take_all({row.start + static_cast<std::int64_t>(row.degree - count), count}, positions);
  }

 private:
  std::uint64_t fanout_;
};

// Robert Floyd's algorithm (Bentley and Floyd, CACM 30(9), 1987): k draws give k distinct offsets, every k-subset
// equally likely. Pick order is the order of the draws.
class UniformPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicks;
  static constexpr bool kReturnsWeights = false;

  UniformPicker(std::uint64_t key, std::uint64_t fanout)
      : keys_(key), fanout_(fanout), in_vectors_(fanout <= kMostDistinctDraws && draws_in_vectors()) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    const auto count = static_cast<std::size_t>(fanout_);
    if (in_vectors_ && row.degree <= std::numeric_limits<std::int32_t>::max() &&
        draw_distinct(keys_, static_cast<std::uint64_t>(node), row.start, static_cast<std::uint32_t>(row.degree),
                      static_cast<std::uint32_t>(count), positions)) {
      return count;
    }
    picked_set_.begin(positions, count);
    WordStream stream(keys_.key, static_cast<std::uint64_t>(node));
    for (std::size_t picked = 0; picked < count; ++picked) {
      const std::uint64_t last = row.degree - fanout_ + picked;
      std::int64_t position = row.start + static_cast<std::int64_t>(bounded(stream, last + 1));
      if (!picked_set_.insert(picked, position)) {
        // `last` itself cannot have been picked before: all earlier draws were below it.
        position = row.start + static_cast<std::int64_t>(last);
        picked_set_.insert(picked, position);
      }
      positions[picked] = position;
    }
    return count;
  }

 private:
  StreamKeys keys_;
  std::uint64_t fanout_;
  bool in_vectors_;
  PickedSet picked_set_;
};

class UniformReplacementPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicks;
  static constexpr bool kReturnsWeights = false;

  UniformReplacementPicker(std::uint64_t key, std::uint64_t fanout) : key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    const std::size_t count = max_picks(row.degree);
    WordStream stream(key_, static_cast<std::uint64_t>(node));
    for (std::size_t i = 0; i < count; ++i) {
      positions[i] = row.start + static_cast<std::int64_t>(bounded(stream, row.degree));
    }
    return count;
  }

 private:
  std::uint64_t key_;
  std::uint64_t fanout_;
};

}  // namespace headrace
