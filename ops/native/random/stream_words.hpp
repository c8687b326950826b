// The words of one id's stream, and variates made of them, many at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"
#include "random/stream.hpp"

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

// Entries that `out` must have room for behind the last word it is asked for.
constexpr std::size_t kWordsSlack = 16;

// out[i] = word 4 * first_block + i of the stream of `id`, i < count. Every instruction set gives the same.
void stream_words(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                  std::uint32_t* out, InstructionSet set = best_instruction_set());

// Variates of 64 bits that a stream has, two in each block.
constexpr std::uint64_t kMostVariates = std::uint64_t{1} << 33;

// out[i] = variate first + i of `id`, i < count; `first` is even. Variate i is the 64-bit integer whose upper half is
// word 2 i of the stream, and whose lower half is word 2 i + 1.
void stream_variates(const StreamKeys& keys, std::uint64_t id, std::uint64_t first, std::size_t count,
                     std::uint64_t* out);

}  // namespace headrace
