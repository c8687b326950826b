// Twin of ops/native/sampling/parallel_edges.hpp: which of the edges from one source an edge of a row is.
#pragma once

#include <cstdint>

namespace headrace {

// `numbers` are those of the whole graph in CSC order, or, with `starts`, of each row of a frontier from starts[i] on.
// Without them no row has parallel edges.
class EdgeNumbers {
 public:
  EdgeNumbers(const std::int32_t* numbers, const std::int64_t* starts, std::int64_t row, std::int64_t first_position)
      : of_row_(numbers == nullptr ? nullptr : numbers + (starts == nullptr ? first_position : starts[row])) {}

  std::uint32_t operator[](std::int64_t edge) const {
    return of_row_ == nullptr ? 0 : static_cast<std::uint32_t>(of_row_[edge]);
  }

 private:
  const std::int32_t* of_row_;
};

}  // namespace headrace
