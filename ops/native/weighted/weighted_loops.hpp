// The inner loops of draws by weight. Each loop has a version for AVX-512, one for AVX2 and a portable one; all give
// the same bits.
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

}  // namespace headrace
