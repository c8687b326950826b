// Edges that race: each arrives at a time of its own, sooner the more it weighs, and the first are picked. Each loop
// has a version for AVX-512 and a portable one, some one for AVX2; all give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"

namespace headrace {

// Entries that `times` below must have room for behind the last one they hold.
constexpr std::size_t kTimesSlack = 8;

// Turn variates into the times -ln(u_i) / weight_i at which edges arrive, in place as bits (ordered_bits); an edge of
// weight 0 never arrives: all bits are set.
template <class Weight>
void arrivals(const Weight* weights, std::size_t count, std::uint64_t* times,
              InstructionSet set = best_instruction_set());

// Write the places of the times of which fewer than `wanted` are smaller, ascending; there are more than `wanted` where
// several equal the largest of them. Overwrites the slack of `times`. Returns how many there are.
std::size_t keep_earliest(std::uint64_t* times, std::size_t count, std::size_t wanted, std::uint32_t* kept,
                          InstructionSet set = best_instruction_set());

// Edges of a row that race_at_once takes at most.
constexpr std::size_t kMostRacers = 16;
constexpr std::size_t kUndecided = ~std::size_t{0};

// The positions of the `wanted` edges that arrive first, ascending, of a row of `degree` <= kMostRacers edges from
// position `start` on: arrivals and keep_earliest in one, on machines with vectors of eight lanes. `variates` are
// kMostRacers. Overwrites kMostRacers entries of `positions`. Returns how many edges there are, or kUndecided where the
// last of them arrives when another one does, or if the machine cannot; then no position is valid.
template <class Weight>
std::size_t race_at_once(const Weight* weights, const std::uint64_t* variates, std::int64_t start, std::size_t degree,
                         std::size_t wanted, std::int64_t* positions, InstructionSet set = best_instruction_set());

}  // namespace headrace
