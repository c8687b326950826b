// What the pickers have in common. A picker writes CSC positions of one row and returns how many; its randomness is the
// word stream of the destination's global id, or of the sources', so neither threads nor other rows can change the
// outcome. It says what to prefetch of a row, and when (kAhead), and whether it fills in importance weights
// (kReturnsWeights).
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

// Rows that a task handles at a time, so that what comes of them stays in a core's cache until it is appended.
constexpr std::size_t kRowsInChunk = 512;

// Positions behind the last one picked that a picker may overwrite.
constexpr std::size_t kPickSlack = 16;

// Cache lines of a row that are prefetched: the hardware follows a long row by itself once it has seen its beginning.
constexpr std::uint64_t kLinesAhead = 16;

// Those that read a row from end to end have a beginning(row), which says what they read first.
enum class Ahead {
  kNothing,  // it reads nothing, and picks edges side by side
  kPicks,    // it reads nothing: prefetch what it has picked, here and there
  kRow,      // it reads the row from end to end
  kPicker,   // it knows best: call its prefetch_early(node), and then its prefetch(node, row)
};

inline std::size_t take_all(Row row, std::int64_t* positions) {
  for (std::uint64_t i = 0; i < row.degree; ++i) positions[i] = row.start + static_cast<std::int64_t>(i);
  return static_cast<std::size_t>(row.degree);
}

}  // namespace headrace
