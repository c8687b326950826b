// The inner loop of uniform picks without replacement.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruction_set.hpp"

namespace headrace {

// Rows of which more edges are wanted take the plain way.
constexpr std::size_t kMostDistinctDraws = 16;

// Floyd's algorithm, as UniformPicker does it, for a whole row at once: `count` <= kMostDistinctDraws distinct positions
// from [start, start + degree), count < degree < 2^32. Overwrites kMostDistinctDraws entries of `positions`. Returns
// false when it cannot tell what the picks are (a draw may have to be repeated, or no instruction set for it); then
// nothing of `positions` is valid.
bool draw_distinct(std::uint64_t key, std::uint64_t id, std::int64_t start, std::uint32_t degree, std::uint32_t count,
                   std::int64_t* positions);

}  // namespace headrace
