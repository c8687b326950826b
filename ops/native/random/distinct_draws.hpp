// Draws without replacement, sixteen at once, where the machine has vectors of as many lanes. The picks are those that
// UniformPicker and WeightedPicker would find draw by draw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "random/stream_variates.hpp"

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

// Behind `picked` distinct positions of a row write those of the first ones of `count` <= 16 offsets, below 2^32, that
// are new, up to `wanted` <= kMostDistinctDraws in all. `start` is where the row begins. Overwrites kMostDistinctDraws
// entries of `positions` behind the picked ones. Returns how many there are.
std::size_t take_distinct(const std::uint64_t* offsets, std::size_t count, std::size_t picked, std::size_t wanted,
                          std::int64_t start, std::int64_t* positions);
std::size_t take_distinct(const std::uint16_t* offsets, std::size_t count, std::size_t picked, std::size_t wanted,
                          std::int64_t start, std::int64_t* positions);

}  // namespace headrace
