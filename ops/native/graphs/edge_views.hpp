// What is known of edges, as kernels see it: borrowed arrays in CSC order, each of which may be absent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/prefetch.hpp"

namespace headrace {

// An array of 32 or 64 bit integers; null when `size` entries would be 0, 1, 2, ...
struct EdgeIds {
  const std::int32_t* narrow = nullptr;
  const std::int64_t* wide = nullptr;

  bool is_position() const { return narrow == nullptr && wide == nullptr; }
  std::int64_t operator[](std::int64_t position) const { return narrow != nullptr ? narrow[position] : wide[position]; }
  const void* address(std::int64_t position) const {
    return narrow != nullptr ? static_cast<const void*>(narrow + position) : static_cast<const void*>(wide + position);
  }
};

// float or double; both null for a graph without weights. Sums and quotients are always taken in double precision.
// `sums` are the running sums of all rows (running_sums.hpp), or null.
struct EdgeWeights {
  const float* narrow = nullptr;
  const double* wide = nullptr;
  const double* sums = nullptr;

  bool none() const { return narrow == nullptr && wide == nullptr; }
  double operator[](std::int64_t position) const {
    return narrow != nullptr ? static_cast<double>(narrow[position]) : wide[position];
  }
  const void* address(std::int64_t position) const {
    return narrow != nullptr ? static_cast<const void*>(narrow + position) : static_cast<const void*>(wide + position);
  }
  // Prefetch `count` > 0 of them.
  void prefetch(std::int64_t position, std::size_t count) const {
    return narrow != nullptr ? prefetch_array(narrow + position, count) : prefetch_array(wide + position, count);
  }
};

// Ascending within each row; null for a graph without times.
using EdgeTimes = const std::int64_t*;

}  // namespace headrace
