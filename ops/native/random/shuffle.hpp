// The order of shuffled items: every order is as likely as any other where it can be listed; see ops/random/shuffle.py.
#pragma once

#include <cstdint>

#include "random/feistel.hpp"
#include "random/fisher_yates.hpp"

namespace headrace {

// Up to so many items an order is listed by fisher_yates, some 2 ms and 8 MB at most; feistel_range gives that of more.
constexpr std::uint64_t kMostListedItems = std::uint64_t{1} << 20;

// Write the items at positions start, start + 1, ..., stop - 1 of the order that `key` names. A chunk of an order
// that is listed takes the time of all of it. Needs start <= stop <= num_items <= kMostPermutedItems.
void shuffled_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                    std::int64_t* out);

}  // namespace headrace
