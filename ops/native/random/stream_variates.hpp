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

// Half word i of a stream whose words are given.
inline std::uint16_t half_word(const std::uint32_t* words, std::size_t i) {
  return static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16));
}

// Entries that `out` must have room for behind the last one it is asked for.
constexpr std::size_t kWordsSlack = 32;
constexpr std::size_t kVariatesSlack = 16;

constexpr std::size_t kVariatesInBlock = 8;  // as many half words
inline std::uint32_t block_of_variate(std::uint64_t i) { return static_cast<std::uint32_t>(i / kVariatesInBlock); }

// out[i] = word 4 * first_block + i of the stream of `id`, i < count. Every instruction set gives the same, here and
// below.
void stream_words(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                  std::uint32_t* out, InstructionSet set = best_instruction_set());

// out[i] = variate kVariatesInBlock * first_block + i of `id`, i < count. Of variate i bits 48 to 63 are half word i of
// the id's stream (halves 2 j and 2 j + 1 are the lower and the upper one of word j), bits 32 to 47 half word i of its
// second stream, and bits 0 to 31 word i of its third one: where the upper bits suffice the others need not be made.
void stream_variates(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                     std::uint64_t* out, InstructionSet set = best_instruction_set());

}  // namespace headrace
