// Running sums of edge weights along a row, and the edge that a variate falls on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "instruction_set.hpp"
#include "unit_interval.hpp"

namespace headrace {

// Where in a row of `degree` edges the edge for variate `u` is looked for first: where it is if all weights are equal.
HEADRACE_INLINE std::size_t guess_edge(double u, std::size_t degree) {
  return std::min(static_cast<std::size_t>(u * static_cast<double>(degree)), degree - 1);
}

constexpr std::size_t kWholeRow = 64;  // up to here to look at all sums takes less time than to search
constexpr std::size_t kWindow = 16;    // sums looked at around the guess

// The first edge of [first, last) whose running sum exceeds the target, or `last`, without a branch on the weights.
HEADRACE_INLINE std::size_t count_up_to(const double* sums, std::size_t first, std::size_t last, double target) {
  std::int64_t count = 0;
  for (std::size_t i = first; i < last; ++i) count += sums[i] <= target ? 1 : 0;
  return first + static_cast<std::size_t>(count);
}

// The first edge whose running sum exceeds u * total, for 0 < u < 1 and a positive total (the last sum). Which edge
// that is does not depend on how it is searched: around the guess, then from there in doubling steps and by bisection.
// So weights of about the same size cost one or two cache misses however long the row is.
HEADRACE_INLINE std::size_t find_edge(const double* sums, std::size_t degree, double u) {
  const double total = sums[degree - 1];
  const double target = u * total;
  // Among the smallest doubles the product rounds up to the total: then it is the last edge of positive weight.
  if (!(target < total)) return static_cast<std::size_t>(std::lower_bound(sums, sums + degree, total) - sums);
  if (degree <= kWholeRow) return count_up_to(sums, 0, degree, target);
  const std::size_t guess = guess_edge(u, degree);
  std::size_t first = std::min(guess - std::min(guess, kWindow / 2), degree - kWindow);
  std::size_t last = first + kWindow;
  const std::size_t edge = count_up_to(sums, first, first + kWindow, target);
  const bool too_late = edge == first && first != 0 && sums[first - 1] > target;
  if (!too_late && edge != last) return edge;
  if (too_late) {
    last = first;
    first = 0;
    for (std::size_t step = kWindow; step < last; step *= 2) {
      if (sums[last - step] <= target) {
        first = last - step + 1;
        break;
      }
      last -= step;
    }
  } else {
    first = last;
    last = degree;
    for (std::size_t step = kWindow; first + step < degree; step *= 2) {
      if (sums[first + step - 1] > target) {
        last = first + step;
        break;
      }
      first += step;
    }
  }
  return static_cast<std::size_t>(std::upper_bound(sums + first, sums + last, target) - sums);
}

}  // namespace headrace
