// Which parts of a file to read for a list of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "disk/row_file.hpp"

namespace headrace {

// A row of the file, and the row of the output that it goes to.
struct WantedRow {
  std::uint64_t row;
  std::uint64_t place;
};

// One read: the rows wanted[first], ..., wanted[last - 1], which are near each other, and what is between them.
struct ReadRange {
  std::uint64_t offset;  // of the file
  std::size_t bytes;     // to ask for: multiples of the alignment, like the offset,
  std::size_t needed;    // and so many must come: the last range may reach beyond the end of the file
  std::size_t first;
  std::size_t last;
};

struct ReadPlan {
  Buffer<WantedRow> wanted;  // by row
  std::vector<ReadRange> ranges;
  std::size_t most_bytes = 0;  // of a range
};

// A range ends before a gap of more than `gap_bytes`, or when it has kMostRangeBytes; repeated rows are read once.
// `places` may be null: one after the other.
constexpr std::size_t kMostRangeBytes = std::size_t{256} << 10;

template <class Id>
ReadPlan plan_reads(const RowLayout& layout, std::size_t alignment, std::size_t gap_bytes, const Id* ids,
                    std::size_t num_ids, const std::int64_t* places);

}  // namespace headrace
