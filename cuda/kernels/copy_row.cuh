// A row copied by neighbouring threads.
#pragma once

#include <cstdint>

#include "grid.cuh"

namespace headrace {

// What is read at once over a bus to other memory: requests that begin at such a line get it whole.
constexpr std::int64_t kLineBytes = 128;

// Words of a row that one warp copies: the lanes begin where a line of the source begins, in front of the row if need
// be.
template <class Word>
void copy_row(const Word* from, Word* to, std::int64_t num_words, int lane) {
  constexpr auto kPerLine = static_cast<std::int64_t>(kLineBytes / sizeof(Word));
  const auto in_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) / sizeof(Word)) % kPerLine;
  for (std::int64_t word = lane - in_line; word < num_words; word += kWarp) {
    if (word >= 0) to[word] = from[word];
  }
}

}  // namespace headrace
