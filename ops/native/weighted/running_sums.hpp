// Running sums of edge weights along a row, and the edge that a variate falls on: the first one whose running sum, of
// doubles added up in CSC order, exceeds unit_interval(variate) * total.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ordered_bits.hpp"
#include "core/prefetch.hpp"
#include "graphs/graph.hpp"
#include "random/unit_interval.hpp"
#include "weighted/weights.hpp"

namespace headrace {

constexpr std::size_t kFewSums = 32;  // up to here to look at all sums takes less time than to search
constexpr std::size_t kWindow = 16;   // sums looked at around the guess

// Where among `count` equal parts `u` falls: what is looked for is there if all weights are equal.
inline std::size_t guess_part(double u, std::size_t count) {
  return std::min(static_cast<std::size_t>(u * static_cast<double>(count)), count - 1);
}

// u * total, but below the total, which the product may reach by rounding among the smallest doubles.
inline double target_of(double u, double total) {
  return std::min(u * total, from_ordered_bits(ordered_bits(total) - 1));
}

// The first of sums [first, last) that exceeds the target, or `last`, without a branch on the weights.
inline std::size_t count_up_to(const double* sums, std::size_t first, std::size_t last, double target) {
  std::int64_t count = 0;
  for (std::size_t i = first; i < last; ++i) count += sums[i] <= target ? 1 : 0;
  return first + static_cast<std::size_t>(count);
}

// The first of the ascending sums that exceeds the target, or `count`. Which one that is does not depend on how it is
// searched: around the guess, then from there in doubling steps and by bisection. So weights of about the same size
// cost one or two cache misses however many there are.
inline std::size_t search_sums(const double* sums, std::size_t count, std::size_t guess, double target) {
  if (count <= kFewSums) return count_up_to(sums, 0, count, target);
  std::size_t first = std::min(guess - std::min(guess, kWindow / 2), count - kWindow);
  std::size_t last = first + kWindow;
  const std::size_t found = count_up_to(sums, first, last, target);
  const bool too_late = found == first && first != 0 && sums[first - 1] > target;
  if (!too_late && found != last) return found;
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
    last = count;
    for (std::size_t step = kWindow; first + step < count; step *= 2) {
      if (sums[first + step - 1] > target) {
        last = first + step;
        break;
      }
      first += step;
    }
  }
  return static_cast<std::size_t>(std::upper_bound(sums + first, sums + last, target) - sums);
}

// The first of `count` weights whose running sum exceeds u * total, for 0 < u < 1 and a positive total (the last sum).
inline std::size_t find_weight(const double* sums, std::size_t count, double u) {
  const std::size_t found = search_sums(sums, count, guess_part(u, count), target_of(u, sums[count - 1]));
  return std::min(found, count - 1);  // reached only where the total is not positive
}

// Of the running sums of a graph's rows only those before every kEdgesPerSum-th edge are kept: for position p within a
// row but not its start, p a multiple of it, sums[p / kEdgesPerSum] is the sum of the row's weights before p. The sums
// in between are added up anew when they are needed, in the same order, so that their bits are the same.
constexpr std::size_t kEdgesPerSum = 4;

inline std::size_t sums_in_graph(std::size_t num_edges) { return num_edges / kEdgesPerSum + 1; }

// The first of a row's entries in the sums of all rows, and how many it has. The degree is positive.
inline std::size_t first_sum(Row row) { return static_cast<std::size_t>(row.start) / kEdgesPerSum + 1; }
inline std::size_t sums_in_row(Row row) {
  return (static_cast<std::size_t>(row.start) + static_cast<std::size_t>(row.degree) - 1) / kEdgesPerSum + 1 -
         first_sum(row);
}

// Those of a row: [sums_in_row(row)].
void sum_row(EdgeWeights weights, Row row, double* sums);

// Those of all rows: [sums_in_graph(num_edges)]. Entries where a row begins are not written.
void sum_rows(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
              double* sums, int num_threads);

// A row as its sums cut it into parts. Damaged sums may give a wrong edge, but always one of the row.
template <class Weight>
class SummedRow {
 public:
  // `weights` are those of all rows, `sums` those of this one; its degree is positive.
  SummedRow(const Weight* weights, const double* sums, Row row)
      : weights_(weights + row.start),
        degree_(static_cast<std::size_t>(row.degree)),
        head_(kEdgesPerSum - static_cast<std::size_t>(row.start) % kEdgesPerSum),
        sums_(sums),
        num_sums_(sums_in_row(row)) {}

  double total() const {
    double sum = sum_before(num_sums_);
    for (std::size_t i = first_of(num_sums_); i < degree_; ++i) sum += static_cast<double>(weights_[i]);
    return sum;
  }

  // The part where the edge is whose running sum is the first to exceed the target, target_of(u, total()).
  std::size_t part(double u, double target) const {
    return search_sums(sums_, num_sums_, guess_part(u, num_sums_ + 1), target);
  }

  void prefetch(std::size_t part) const { prefetch_read(weights_ + first_of(part)); }

  // The edge in that part, as its offset in the row.
  std::size_t find(std::size_t part, double target) const {
    const std::size_t first = first_of(part);
    double sum = sum_before(part);
    std::size_t edge = first;
    const auto pass = [&](std::size_t i) {
      sum += static_cast<double>(weights_[i]);
      edge += sum <= target ? 1 : 0;
    };
    if (part != 0 && part != num_sums_) {
      for (std::size_t i = 0; i < kEdgesPerSum; ++i) pass(first + i);
    } else {
      const std::size_t last = std::min(degree_, first + (part == 0 ? head_ : kEdgesPerSum));
      for (std::size_t i = first; i < last; ++i) pass(i);
    }
    return std::min(edge, degree_ - 1);  // reached only where weights change meanwhile
  }

 private:
  std::size_t first_of(std::size_t part) const { return part == 0 ? 0 : head_ + (part - 1) * kEdgesPerSum; }
  double sum_before(std::size_t part) const { return part == 0 ? 0.0 : sums_[part - 1]; }

  const Weight* weights_;
  std::size_t degree_;
  std::size_t head_;    // edges before the first sum
  const double* sums_;  // [num_sums_]
  std::size_t num_sums_;
};

}  // namespace headrace
