// How often rows were used, roughly, in memory that depends on the slots of a cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

// A count-min sketch of two counters a row, or exact counts if there are no more rows than counters.
class UseCounts {
 public:
  UseCounts(std::size_t capacity, std::size_t num_rows) {
    constexpr std::size_t kPerSlot = 8;
    while (std::size_t{1} << bits_ < kPerSlot * capacity) ++bits_;
    exact_ = num_rows <= std::size_t{1} << bits_;
    counts_ = Buffer<std::uint16_t>::long_lived(exact_ ? num_rows : std::size_t{1} << bits_);
    std::fill(counts_.data(), counts_.data() + counts_.size(), std::uint16_t{0});
  }

  // Once a counter is full all are halved: what was long ago counts less.
  void add(std::int64_t id) {
    const Places at = places(id);
    if (std::max(counts_[at.one], counts_[at.other]) == UINT16_MAX) {
      for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] = static_cast<std::uint16_t>(counts_[i] / 2);
    }
    ++counts_[at.one];
    if (at.one != at.other) ++counts_[at.other];
  }

  std::uint16_t of(std::int64_t id) const {
    const Places at = places(id);
    return std::min(counts_[at.one], counts_[at.other]);
  }

  std::size_t num_bytes() const { return counts_.size() * sizeof(std::uint16_t); }

 private:
  struct Places {
    std::size_t one;
    std::size_t other;
  };

  Places places(std::int64_t id) const {
    const auto key = static_cast<std::uint64_t>(id);
    if (exact_) return {static_cast<std::size_t>(key), static_cast<std::size_t>(key)};
    return {static_cast<std::size_t>(key * 0x9E3779B97F4A7C15U >> (64 - bits_)),
            static_cast<std::size_t>(key * 0xC2B2AE3D27D4EB4FU >> (64 - bits_))};
  }

  unsigned bits_ = 6;
  bool exact_ = false;
  Buffer<std::uint16_t> counts_;
};

// One of 144 levels: counts below 64 have one each, and from there on eight for every doubling.
inline std::size_t level_of_count(std::uint16_t count) {
  if (count < 64) return count;
  unsigned doublings = 0;
  while (count >> doublings >= 16) ++doublings;  // leaves 8 to 15
  return 64 + 8 * (doublings - 3) + (static_cast<std::size_t>(count) >> doublings) - 8;
}

}  // namespace headrace
