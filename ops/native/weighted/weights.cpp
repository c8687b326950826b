#include "weighted/weights.hpp"

#include <limits>
#include <string>

#include "core/parallel.hpp"

namespace headrace {
namespace {

constexpr double kCheckNanoseconds = 2;  // what one thread takes about for an edge

}  // namespace

void check_weights(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                   int num_threads) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  constexpr double kSmallest = 64.0 / kLargest;  // variates have logarithms up to 37: below, quotients overflow
  num_threads = threads_for(num_threads, kCheckNanoseconds * static_cast<double>(num_edges));
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  parallel_for_each(num_threads, num_nodes, [&](std::size_t v) {
    const Row row = rows.row(static_cast<std::int64_t>(v));
    const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
    double sum = 0.0;
    for (std::int64_t e = row.start; e < stop; ++e) {
      const double weight = weights[e];
      if (!(weight >= 0.0 && weight <= kLargest)) {  // false for NaN too
        throw InputError("check_weights: weights[" + std::to_string(e) + "] = " + std::to_string(weight) +
                         ", in the row of node " + std::to_string(v) + ": expected finite weights of at least 0");
      }
      if (weight > 0.0 && weight < kSmallest) {
        throw InputError("check_weights: weights[" + std::to_string(e) + "], in the row of node " + std::to_string(v) +
                         ", is positive but below 3.6e-307, too small to compare; scale them up");
      }
      sum += weight;
    }
    // Importance weights multiply by the number of picks before they divide by the sum.
    if (sum * static_cast<double>(row.degree) > kLargest) {
      throw InputError("check_weights: the weights of the in-edges of node " + std::to_string(v) +
                       " sum to infinity, or do so times their number; scale them down");
    }
  });
}

}  // namespace headrace
