// Draws without replacement for a whole row at once, where the machine has vectors of sixteen lanes. The picks are
// those that UniformPicker and WeightedPicker would find draw by draw.
#pragma once

#include <cstddef>
#include <cstdint>

#include "stream_variates.hpp"

namespace headrace {

// Rows of which more edges are wanted are drawn from draw by draw.
constexpr std::size_t kMostDistinctDraws = 16;
// So are rows of more edges, by weight.
constexpr std::size_t kMostWeightedDegree = 64;

// Whether this machine can.
bool draws_whole_rows();

// `wanted` <= kMostDistinctDraws distinct positions of [start, start + degree), wanted < degree < 2^32, by Floyd's
// algorithm. Overwrites kMostDistinctDraws entries of `positions`. Returns false when a draw has to be repeated, which
// is rare: then nothing of `positions` is valid.
bool draw_distinct(const StreamKeys& keys, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                   std::uint32_t wanted, std::int64_t* positions);

// The first `wanted` <= kMostDistinctDraws different edges that `num_draws` draws by weight hit, as positions;
// `variates` are those of the first sixteen draws, `sums` the running sums of a row of `degree` <= kMostWeightedDegree
// edges, the last one positive. Overwrites kMostDistinctDraws entries of `positions`. Returns how many there are.
std::size_t draw_distinct_by_weight(const StreamKeys& keys, std::uint64_t id, std::int64_t start,
                                    const std::uint64_t* variates, const double* sums, std::size_t degree,
                                    std::size_t wanted, std::size_t num_draws, std::int64_t* positions);

// The first `wanted` <= kMostDistinctDraws different ones of `count` <= 16 offsets below 2^32, as positions from
// `start` on, in order. Overwrites kMostDistinctDraws entries of `positions`. Returns how many there are.
std::size_t take_distinct(const std::uint64_t* offsets, std::size_t count, std::size_t wanted, std::int64_t start,
                          std::int64_t* positions);

}  // namespace headrace
