// A keyed permutation of [0, num_items) in O(1) memory: any chunk of it, on demand.
#pragma once

#include <cstdint>

#include "core/instruction_set.hpp"

namespace headrace {

constexpr std::uint64_t kMostPermutedItems = std::uint64_t{1} << 62;

// Write the items at positions start, start + 1, ..., stop - 1 of the permutation that `key` names: a Feistel network
// over a grid of rows * columns >= num_items, both of them even, which walks on past values that are no items. Round
// i = 0, ..., 9 adds floor(F * rows / 2^64) to the row, modulo `rows`, if i is even, and else floor(F * columns / 2^64)
// to the column, modulo `columns`, where F is lane 0 << 32 | lane 1 of block i of the stream whose id is the other
// coordinate. Needs start <= stop <= num_items <= kMostPermutedItems; every instruction set gives the same.
//
// In place of the usual XOR of halves of bits the sum modulo an even number: a round of XORs is always an even
// permutation, one of sums as often odd. And the grid has few values more than there are items.
void feistel_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                   std::int64_t* out, InstructionSet set = best_instruction_set());

}  // namespace headrace
