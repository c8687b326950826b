// Draws without replacement, sixteen at once, where the machine has vectors of as many lanes. The picks are those that
// UniformPicker would find draw by draw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random/stream_words.hpp"

namespace headrace {

// Rows of which more edges are wanted are drawn from draw by draw.
constexpr std::size_t kMostDistinctDraws = 16;

// Whether this machine can.
bool draws_in_vectors();

// `wanted` <= kMostDistinctDraws distinct positions of [start, start + degree), wanted < degree < 2^31, by Floyd's
// algorithm. Overwrites kMostDistinctDraws entries of `positions`. Returns false when a draw has to be repeated, which
// is rare: then nothing of `positions` is valid.
bool draw_distinct(const StreamKeys& keys, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                   std::uint32_t wanted, std::int64_t* positions);

}  // namespace headrace
