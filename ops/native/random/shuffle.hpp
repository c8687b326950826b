// The order of shuffled items: every order is as likely as any other where it can be listed; see ops/random/shuffle.py.
#pragma once

#include <cstdint>

namespace headrace {

constexpr std::uint64_t kMostPermutedItems = std::uint64_t{1} << 62;

// Write the items at positions start, start + 1, ..., stop - 1 of the permutation that `key` names: a Feistel network
// over a grid of rows * columns >= num_items, both of them even, which walks on past values that are no items. Round
// i = 0, ..., 9 adds floor(F * rows / 2^64) to the row, modulo `rows`, if i is even, and else floor(F * columns / 2^64)
// to the column, modulo `columns`, where F is lane 0 << 32 | lane 1 of block i of the stream whose id is the other
// coordinate. Needs start <= stop <= num_items <= kMostPermutedItems.
//
// In place of the usual XOR of halves of bits the sum modulo an even number: a round of XORs is always an even
// permutation, one of sums as often odd. And the grid has few values more than there are items.
void feistel_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                   std::int64_t* out);

// Up to so many items an order is listed, by Fisher and Yates, some 5 ms and 8 MB at most; feistel_range gives that of
// more.
constexpr std::uint64_t kMostListedItems = std::uint64_t{1} << 20;

// Write the items at positions start, start + 1, ..., stop - 1 of the order that `key` names. A chunk of an order
// that is listed takes the time of all of it. Needs start <= stop <= num_items <= kMostPermutedItems.
void shuffled_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                    std::int64_t* out);

}  // namespace headrace
