#include "weighted/running_sums.hpp"

#include "core/parallel.hpp"

namespace headrace {
namespace {

constexpr double kSumNanoseconds = 4;  // what one thread takes about for an edge

}  // namespace

void sum_row(EdgeWeights weights, Row row, double* sums) {
  const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
  double sum = 0.0;
  for (std::int64_t e = row.start; e < stop; ++e) {
    if (static_cast<std::size_t>(e) % kEdgesPerSum == 0 && e != row.start) *sums++ = sum;
    sum += weights[e];
  }
}

void sum_rows(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
              double* sums, int num_threads) {
  num_threads = threads_for(num_threads, kSumNanoseconds * static_cast<double>(num_edges));
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  parallel_for_each(num_threads, num_nodes, [&](std::size_t v) {
    const Row row = rows.row(static_cast<std::int64_t>(v));
    if (row.degree != 0) sum_row(weights, row, sums + first_sum(row));
  });
}

}  // namespace headrace
