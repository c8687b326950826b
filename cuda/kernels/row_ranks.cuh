// Twin of ops/native/graphs/row_ranks.hpp: which rows of many there are, and where.
#pragma once

#include <cstdint>

namespace headrace {

// A block has how many ids of the set are before it, how many of its own are before each of its words, and these.
struct RowRanks {
  static constexpr std::int64_t kWords = 6;
  static constexpr std::int64_t kIds = 64 * kWords;
  static constexpr std::int64_t kBlock = 2 + kWords;
  static constexpr int kCountBits = 10;

  const std::uint64_t* blocks;  // null for the set of all ids

  // The place of an id in the order of the set; -1 for an id that is not in it.
  std::int64_t find(std::int64_t id) const {
    if (blocks == nullptr) return id;
    const std::uint64_t* const block = blocks + id / kIds * kBlock;
    const std::int64_t word = id % kIds / 64;
    const std::uint64_t bits = block[2 + word];
    const std::uint64_t bit = std::uint64_t{1} << (id % 64);
    if ((bits & bit) == 0) return -1;
    const std::uint64_t before = block[1] >> (kCountBits * word) & ((1U << kCountBits) - 1);
    return static_cast<std::int64_t>(block[0] + before) + __popcll(bits & (bit - 1));
  }
};

}  // namespace headrace
