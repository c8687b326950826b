// The inner loops of weighted picks. Each loop has a version for AVX-512, one for AVX2 and a portable one; all give the
// same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"
#include "random/stream_variates.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {

// Draws that are made of a row of which `fanout` edges are wanted before the others race. Whole blocks of variates.
constexpr std::uint64_t draws_before_race(std::uint64_t fanout) {
  return (4 * fanout + 16 + kVariatesInBlock - 1) / kVariatesInBlock * kVariatesInBlock;
}

// Entries that `times` below must have room for behind the last one they hold.
constexpr std::size_t kTimesSlack = 8;

// out[i] = the first edge of a row whose running sum exceeds unit_interval(variates[i]) * total; see target_of. All the
// running sums are given, the last of which is positive and the total. For short rows: every variate looks at each sum.
void find_edges(const double* sums, std::size_t degree, const std::uint64_t* variates, std::size_t count,
                std::uint64_t* out, InstructionSet set = best_instruction_set());

// Where draws from a row of any length fall, as far as its sums tell.
struct DrawnParts {
  static constexpr std::size_t kMost = 16;

  double targets[kMost];
  std::size_t parts[kMost];  // of a SummedRow
};

// Turn `count` <= kMost variates into the parts of the row that they fall on, and announce the weights there.
template <class Weight>
void draw_parts(const SummedRow<Weight>& row, double total, const std::uint64_t* variates, std::size_t count,
                DrawnParts& drawn, InstructionSet set = best_instruction_set());

// The edges in those parts: out[i] is the first one whose running sum exceeds the target of draw i.
template <class Weight>
void find_in_parts(const SummedRow<Weight>& row, const DrawnParts& drawn, std::size_t count, std::uint64_t* out,
                   InstructionSet set = best_instruction_set());

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
