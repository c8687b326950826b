// A keyed permutation of [0, num_items) in O(1) memory.
#pragma once

#include <cstdint>

namespace headrace {

constexpr std::uint64_t kMaxShuffledItems = std::uint64_t{1} << 62;

// Write the items at positions start, start + 1, ..., stop - 1 of the permutation that `key` names.
// Needs start <= stop <= num_items <= kMaxShuffledItems.
void shuffled_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                    std::int64_t* out);

}  // namespace headrace
