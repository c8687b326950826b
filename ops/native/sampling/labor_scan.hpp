// The inner loops of LABOR, which reads every in-edge of every frontier node: find small variates in a row, and the
// smallest of those. They work on high words alone, the upper 32 bits of the variates r_t of stream.hpp.
//
// Whatever the instruction set, they give the same.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"

namespace headrace {

// Entries that the arrays below must have room for behind the last one they hold.
constexpr std::size_t kScanSlack = 16;

// Ids that will be scanned later: their memory is asked for line by line while others are scanned.
template <class Index>
struct IdsAhead {
  const Index* ids = nullptr;
  std::size_t count = 0;
};

// Find the entries of `ids` whose high word is at most `bound`. Their high words and offsets go to `high` and
// `offsets`, ascending in offset, with room for num_ids + kScanSlack entries each. num_ids is below 2^32. Returns how
// many there are.
template <class Index>
std::size_t scan_variates(const Index* ids, std::size_t num_ids, std::uint64_t key, std::uint32_t bound,
                          std::uint32_t* high, std::uint32_t* offsets, IdsAhead<Index> ahead = {},
                          InstructionSet set = best_instruction_set());

// Write, in their order, the offsets of the entries of which fewer than `wanted` are smaller; there are more than
// `wanted` where several equal the largest of them. Overwrites the slack of `high` and `kept`. Returns how many there
// are.
std::size_t keep_smallest(std::uint32_t* high, const std::uint32_t* offsets, std::size_t count, std::size_t wanted,
                          std::uint32_t* kept, InstructionSet set = best_instruction_set());

}  // namespace headrace
