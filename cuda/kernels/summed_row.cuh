// Twin of ops/native/weighted/running_sums.hpp and edge_draws.hpp: the edge of a row that a variate falls on.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/ordered_bits.hpp"
#include "random/stream.hpp"
#include "random/unit_interval.hpp"

namespace headrace {

// Variate `i` of the stream of `id`: two of them are in each block.
inline std::uint64_t stream_variate(std::uint64_t key, std::uint64_t id, std::uint64_t i) {
  const PhiloxCounter words = stream_block(key, id, static_cast<std::uint32_t>(i / 2));
  const bool second = i % 2 != 0;
  return static_cast<std::uint64_t>(second ? words[2] : words[0]) << 32 | (second ? words[3] : words[1]);
}

// Running sums are kept before every so many edges.
constexpr std::int64_t kEdgesPerSum = 4;

// The first entry of a row in the sums of a whole graph.
inline std::int64_t first_sum(std::int64_t start) { return start / kEdgesPerSum + 1; }

// Sums of the whole graph, or, with `starts`, those of row i of a frontier from starts[i] on.
template <class Sum>
Sum* sums_of_row(Sum* sums, const std::int64_t* starts, std::int64_t row, std::int64_t first_position) {
  return sums + (starts == nullptr ? first_sum(first_position) : starts[row]);
}

// u * total, but below the total, which the product may reach by rounding among the smallest doubles.
inline double target_of(double u, double total) {
  return std::min(u * total, from_ordered_bits(ordered_bits(total) - 1));
}

// A row as its sums cut it into parts. Damaged sums may give a wrong edge, but always one of the row.
template <class Weight>
class SummedRow {
 public:
  // `weights` are those of all rows, `sums` those of this one; its degree is positive.
  SummedRow(const Weight* weights, const double* sums, std::int64_t start, std::int64_t degree)
      : weights_(weights + start),
        degree_(degree),
        head_(kEdgesPerSum - start % kEdgesPerSum),
        sums_(sums),
        num_sums_((start + degree - 1) / kEdgesPerSum - start / kEdgesPerSum) {}

  double total() const {
    double sum = sum_before(num_sums_);
    for (std::int64_t i = first_of(num_sums_); i < degree_; ++i) sum += static_cast<double>(weights_[i]);
    return sum;
  }

  // The first edge whose running sum exceeds u * total, as its offset in the row.
  std::int64_t find(double u, double total) const {
    const double target = target_of(u, total);
    const std::int64_t part = part_of(target);
    double sum = sum_before(part);
    const std::int64_t first = first_of(part);
    const std::int64_t last = std::min(degree_, first_of(part + 1));
    std::int64_t edge = first;
    for (std::int64_t i = first; i < last; ++i) {
      sum += static_cast<double>(weights_[i]);
      edge += sum <= target ? 1 : 0;
    }
    return std::min(edge, degree_ - 1);  // reached only where weights change meanwhile
  }

 private:
  // The first of the ascending sums that exceeds the target, or how many there are.
  std::int64_t part_of(double target) const {
    std::int64_t first = 0;
    for (std::int64_t count = num_sums_; count > 0;) {
      const std::int64_t half = count / 2;
      if (target < sums_[first + half]) {
        count = half;
      } else {
        first += half + 1;
        count -= half + 1;
      }
    }
    return first;
  }

  std::int64_t first_of(std::int64_t part) const { return part == 0 ? 0 : head_ + (part - 1) * kEdgesPerSum; }
  double sum_before(std::int64_t part) const { return part == 0 ? 0.0 : sums_[part - 1]; }

  const Weight* weights_;
  std::int64_t degree_;
  std::int64_t head_;   // edges before the first sum
  const double* sums_;  // [num_sums_]
  std::int64_t num_sums_;
};

}  // namespace headrace
