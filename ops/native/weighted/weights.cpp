#include "weighted/weights.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>

#include "core/parallel.hpp"
#include "weighted/running_shares.hpp"
#include "weighted/running_sums.hpp"

namespace headrace {
namespace {

// What one thread takes about for an edge.
constexpr double kCheckNanoseconds = 2;
constexpr double kSumNanoseconds = 4;

}  // namespace

void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  constexpr double kSmallest = 64.0 / kLargest;  // variates have logarithms up to 37: below, quotients overflow
  num_threads = threads_for(num_threads, kCheckNanoseconds * static_cast<double>(num_edges));
  const std::size_t num_parts = parts_for(num_threads);
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t end = part_bound(num_nodes, num_parts, part + 1);
    for (std::size_t v = part_bound(num_nodes, num_parts, part); v < end; ++v) {
      const Row row = rows.row(static_cast<std::int64_t>(v));
      const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
      double sum = 0.0;
      for (std::int64_t e = row.start; e < stop; ++e) {
        const double weight = weights[e];
        if (!(weight >= 0.0 && weight <= kLargest)) {  // false for NaN too
          throw GraphError("check_weights: weights[" + std::to_string(e) + "] = " + std::to_string(weight) +
                           ", in the row of node " + std::to_string(v) + ": expected finite weights of at least 0");
        }
        if (weight > 0.0 && weight < kSmallest) {
          throw GraphError("check_weights: weights[" + std::to_string(e) + "], in the row of node " +
                           std::to_string(v) + ", is positive but below 3.6e-307, too small to compare; scale them up");
        }
        sum += weight;
      }
      // Importance weights multiply by the number of picks before they divide by the sum.
      if (sum * static_cast<double>(row.degree) > kLargest) {
        throw GraphError("check_weights: the weights of the in-edges of node " + std::to_string(v) +
                         " sum to infinity, or do so times their number; scale them down");
      }
    }
  });
}

bool sum_parts(EdgeWeights weights, Row row, double* sums) {
  const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
  double sum = 0.0;
  bool all_positive = true;
  for (std::int64_t e = row.start; e < stop; ++e) {
    if ((weights.lead + static_cast<std::size_t>(e)) % kEdgesPerSum == 0 && e != row.start) *sums++ = sum;
    const double weight = weights[e];
    sum += weight;
    all_positive &= weight > 0.0;
  }
  return all_positive;
}

bool sum_rows(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
              double* sums, std::uint16_t* shares, int num_threads) {
  num_threads = threads_for(num_threads, kSumNanoseconds * static_cast<double>(num_edges));
  const std::size_t num_parts = parts_for(num_threads);
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  std::atomic<bool> all_positive{true};
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t end = part_bound(num_nodes, num_parts, part + 1);
    bool positive = true;
    for (std::size_t v = part_bound(num_nodes, num_parts, part); v < end; ++v) {
      const Row row = rows.row(static_cast<std::int64_t>(v));
      if (row.degree == 0) continue;
      positive &= sum_parts(weights, row, sums + first_sum(row, weights.lead));
      if (shares != nullptr && row.degree <= kMostSharedDegree) share_row(weights, row, shares + row.start);
    }
    if (!positive) all_positive = false;
  });
  return all_positive;
}

}  // namespace headrace
