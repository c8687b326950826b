// Running sums of edge weights along a row, and the edge that a variate falls on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "unit_interval.hpp"

namespace headrace {

// Where in a row of `degree` edges the edge for variate `u` is looked for first: where it is if all weights are equal.
inline std::size_t guess_edge(double u, std::size_t degree) {
  return std::min(static_cast<std::size_t>(u * static_cast<double>(degree)), degree - 1);
}

// The first edge whose running sum exceeds u * total, for 0 < u < 1 and a positive total (the last sum). Which edge
// that is does not depend on how it is searched: from the guess in doubling steps, then by bisection, so that weights
// of about the same size cost one or two cache misses however long the row is.
inline std::size_t find_edge(const double* sums, std::size_t degree, double u) {
  const double total = sums[degree - 1];
  const double target = u * total;
  // Among the smallest doubles the product rounds up to the total: then it is the last edge of positive weight.
  if (!(target < total)) return static_cast<std::size_t>(std::lower_bound(sums, sums + degree, total) - sums);
  const std::size_t guess = guess_edge(u, degree);
  std::size_t first = 0;
  std::size_t last = degree - 1;  // the edge is in [first, last]
  if (sums[guess] > target) {
    last = guess;
    for (std::size_t step = 1; step <= last; step *= 2) {
      if (!(sums[last - step] > target)) {
        first = last - step + 1;
        break;
      }
      last -= step;
    }
  } else {
    first = guess + 1;
    for (std::size_t step = 1; first + step - 1 < degree - 1; step *= 2) {
      if (sums[first + step - 1] > target) {
        last = first + step - 1;
        break;
      }
      first += step;
    }
  }
  return static_cast<std::size_t>(std::upper_bound(sums + first, sums + last, target) - sums);
}

}  // namespace headrace
