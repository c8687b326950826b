// Uniform picks of in-edges. A picker writes CSC positions of one row and returns how many; its randomness is the word
// stream of the destination's global id, so neither threads nor other rows can change the outcome. A picker says
// whether it reads the row from end to end (kScansRow) and whether it fills in importance weights (kReturnsWeights).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bounded.hpp"
#include "buffer.hpp"
#include "graph.hpp"

namespace headrace {

inline std::size_t take_all(Row row, std::int64_t* positions) {
  for (std::uint64_t i = 0; i < row.degree; ++i) positions[i] = row.start + static_cast<std::int64_t>(i);
  return static_cast<std::size_t>(row.degree);
}

class AllPicker {
 public:
  static constexpr bool kScansRow = false;
  static constexpr bool kKnowsCount = true;  // picks exactly max_picks(degree) edges
  static constexpr bool kReturnsWeights = false;

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }
  std::size_t operator()(std::int64_t /*vertex*/, Row row, std::int64_t* positions, float* /*weights*/) {
    return take_all(row, positions);
  }
};

// Robert Floyd's algorithm (Bentley and Floyd, CACM 30(9), 1987): k draws give k distinct offsets, every k-subset
// equally likely. Pick order is the order of the draws.
class UniformPicker {
 public:
  static constexpr bool kScansRow = false;
  static constexpr bool kKnowsCount = true;  // picks exactly max_picks(degree) edges
  static constexpr bool kReturnsWeights = false;

  UniformPicker(std::uint64_t key, std::uint64_t fanout) : key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    const auto count = static_cast<std::size_t>(fanout_);
    const bool short_list = count <= kLinearCheck;
    if (!short_list) clear_table(count);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex));
    for (std::size_t picked = 0; picked < count; ++picked) {
      const std::uint64_t last = row.degree - fanout_ + picked;
      const std::uint64_t drawn = bounded(stream, last + 1);
      // `last` itself cannot have been picked before: all earlier draws were below it.
      std::int64_t position = row.start + static_cast<std::int64_t>(drawn);
      if (short_list ? contains(positions, picked, position) : !insert(drawn)) {
        position = row.start + static_cast<std::int64_t>(last);
        if (!short_list) insert(last);
      }
      positions[picked] = position;
    }
    return count;
  }

 private:
  static constexpr std::size_t kLinearCheck = 32;  // up to here a scan of the picks beats hashing
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};

  static bool contains(const std::int64_t* positions, std::size_t count, std::int64_t position) {
    bool found = false;  // no early exit: the compiler makes this loop branch-free
    for (std::size_t i = 0; i < count; ++i) found |= positions[i] == position;
    return found;
  }

  void clear_table(std::size_t count) {
    table_bits_ = 1;
    while (std::size_t{1} << table_bits_ < 2 * count) ++table_bits_;
    table_.resize(std::size_t{1} << table_bits_);
    std::fill(table_.data(), table_.data() + table_.size(), kFree);
  }

  // False when the offset already is in the table.
  bool insert(std::uint64_t offset) {
    const std::size_t mask = table_.size() - 1;
    auto slot = static_cast<std::size_t>(offset * 0x9E3779B97F4A7C15U >> (64 - table_bits_));
    for (; table_[slot] != kFree; slot = (slot + 1) & mask) {
      if (table_[slot] == offset) return false;
    }
    table_[slot] = offset;
    return true;
  }

  std::uint64_t key_;
  std::uint64_t fanout_;
  unsigned table_bits_ = 0;
  Buffer<std::uint64_t> table_;
};

class UniformReplacementPicker {
 public:
  static constexpr bool kScansRow = false;
  static constexpr bool kKnowsCount = true;  // picks exactly max_picks(degree) edges
  static constexpr bool kReturnsWeights = false;

  UniformReplacementPicker(std::uint64_t key, std::uint64_t fanout) : key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    const std::size_t count = max_picks(row.degree);
    WordStream stream(key_, static_cast<std::uint64_t>(vertex));
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
