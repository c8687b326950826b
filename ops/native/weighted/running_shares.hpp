// Running sums of weights in two bytes per edge, for rows that are not long: what sixteen bits of a variate tell about
// the edge that it falls on. They are less than the weights take, and nothing has to be added up.
//
// A variate falls on the first edge of a row whose running sum exceeds its target (target_of). Targets ascend with
// variates, so there is a smallest variate that passes an edge, and the upper sixteen bits of that are the edge's
// share. A variate whose upper bits are larger passes the edge, one whose are smaller does not. Where they are equal
// only the sums tell: that is so for one draw in 65,536 by each edge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"
#include "graphs/graph.hpp"
#include "random/stream_variates.hpp"
#include "weighted/weights.hpp"

namespace headrace {

constexpr std::size_t kMostSharedDegree = 256;  // longer rows have no shares: the sums would have to tell too often
constexpr std::size_t kMostSharedDraws = 32;    // found at a time
constexpr std::size_t kSharesInVector = 32;     // of AVX-512
constexpr std::uint16_t kLastShare = 65535;     // of a row's last edge, if its draws are told

// The shares of a row of 0 < degree <= kMostSharedDegree edges. They ascend to the last one, 65535, which no draw
// passes, if no weight is negative. Where the total is not positive and finite, or is tiny, all are 0: then no draw is
// told.
void share_row(EdgeWeights weights, Row row, std::uint16_t* shares, InstructionSet set = best_instruction_set());

// offsets[i] = the edge that variate kVariatesInBlock * first_block + i of `id` falls on, i < count <=
// kMostSharedDraws, for a row of 0 < degree <= kMostSharedDegree edges. Overwrites kMostSharedDraws entries. Returns
// how many of the draws are told, from the first one on.
std::size_t find_by_shares(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                           const std::uint16_t* shares, std::size_t degree, std::size_t count, std::uint16_t* offsets,
                           InstructionSet set = best_instruction_set());

}  // namespace headrace
