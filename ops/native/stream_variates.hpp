// The words of one id's stream, many at a time and two by two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "instruction_set.hpp"
#include "stream.hpp"

namespace headrace {

// A key with the two halves that each round of Philox adds, which are the same for all ids: one in each vector lane.
struct StreamKeys {
  explicit StreamKeys(std::uint64_t stream) : key(stream) {
    for (std::uint32_t round = 0; round < kStreamRounds; ++round) {
      low[round] = low_word(stream) + round * kWeyl0;
      high[round] = high_word(stream) + round * kWeyl1;
    }
  }

  std::uint64_t key;
  std::uint32_t low[kStreamRounds];
  std::uint32_t high[kStreamRounds];
};

// Entries that `out` must have room for behind the last one it is asked for.
constexpr std::size_t kVariatesSlack = 16;

// out[i] = words 2i and 2i + 1 behind block `first_block` of the stream of `id`, the first one in the upper half;
// i < count. Every instruction set gives the same.
void stream_variates(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                     std::uint64_t* out, InstructionSet set = best_instruction_set());

}  // namespace headrace
