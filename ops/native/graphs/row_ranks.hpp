// Which ids of many are in a set, and where in its order: a bit for each id that there may be, and counts beside them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"

namespace headrace {

// A borrowed set. An id is looked up in one cache line: a block has how many ids of the set are before it, how many of
// its own are before each of its words, 10 bits for each, and its words.
struct RowRanks {
  static constexpr std::size_t kWords = 6;  // of a block
  static constexpr std::size_t kIds = 64 * kWords;
  static constexpr std::size_t kBlock = 2 + kWords;
  static constexpr int kCountBits = 10;

  const std::uint64_t* blocks = nullptr;  // [num_blocks(num_ids), kBlock]; null for the set of all ids
  std::size_t size = 0;                   // ids of the set, unless it is that

  static std::size_t num_blocks(std::size_t num_ids) { return (num_ids + kIds - 1) / kIds; }

  bool all() const { return blocks == nullptr; }

  // The place of an id in the order of the set; -1 for an id that is not in it.
  std::int64_t find(std::int64_t id) const {
    const auto place = static_cast<std::uint64_t>(id);
    const std::uint64_t* const block = blocks + place / kIds * kBlock;
    const std::uint64_t word = place % kIds / 64;
    const std::uint64_t bits = block[2 + word];
    const std::uint64_t bit = std::uint64_t{1} << (place % 64);
    if ((bits & bit) == 0) return -1;
    const std::uint64_t before = block[1] >> (kCountBits * word) & ((1U << kCountBits) - 1);
    return static_cast<std::int64_t>(block[0] + before) + __builtin_popcountll(bits & (bit - 1));
  }

  void prefetch(std::int64_t id) const { prefetch_far(blocks + static_cast<std::uint64_t>(id) / kIds * kBlock); }
};

// The blocks of a set of ids below `num_ids`, ascending. Throws InputError for other ids, and for any order but that.
Buffer<std::uint64_t> rank_rows(const std::int64_t* ids, std::size_t count, std::size_t num_ids);

// The place of each id, as RowRanks has it. Throws InputError for ids that there cannot be, and for other blocks.
Buffer<std::int64_t> find_rows(const std::uint64_t* blocks, std::size_t size, std::size_t num_ids,
                               const std::int64_t* ids, std::size_t count);

}  // namespace headrace
