// A row copied by neighbouring threads.
#pragma once

#include <cstdint>

#include "grid.cuh"

namespace headrace {

// What is read at once over a bus to other memory: requests that begin at such a line get it whole.
constexpr std::int64_t kLineBytes = 128;

constexpr int kReadsAhead = 4;  // words that a lane has on their way: a bus or a memory takes long for each

// Words of a row that one warp copies: the lanes begin where a line of the source begins, in front of the row if need
// be. Nobody writes to either row meanwhile.
template <class Word>
void copy_row(const Word* __restrict__ from, Word* __restrict__ to, std::int64_t num_words, int lane) {
  constexpr auto kPerLine = static_cast<std::int64_t>(kLineBytes / sizeof(Word));
  const auto in_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) / sizeof(Word)) % kPerLine;
  for (std::int64_t word = lane - in_line; word < num_words; word += kReadsAhead * kWarp) {
    Word held[kReadsAhead];
#pragma unroll
    for (int read = 0; read < kReadsAhead; ++read) {
      const std::int64_t at = word + read * kWarp;
      if (at >= 0 && at < num_words) held[read] = __ldg(from + at);
    }
#pragma unroll
    for (int read = 0; read < kReadsAhead; ++read) {
      const std::int64_t at = word + read * kWarp;
      if (at >= 0 && at < num_words) to[at] = held[read];
    }
  }
}

}  // namespace headrace
