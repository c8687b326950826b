#include "graphs/row_order.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "core/parallel.hpp"
#include "graphs/graph.hpp"

namespace headrace {
namespace {

constexpr double kCompareNanoseconds = 1;
constexpr double kSortNanoseconds = 30;  // what one thread takes about for an edge

// Calls body(first, last) with where the edges of each row begin and end.
template <class Body>
void for_each_row(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, double nanoseconds,
                  int num_threads, const Body& body) {
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  num_threads = threads_for(num_threads, nanoseconds * static_cast<double>(num_edges));
  parallel_for_each(num_threads, num_nodes, [&](std::size_t v) {
    const Row row = rows.row(static_cast<std::int64_t>(v));
    body(row.start, row.start + static_cast<std::int64_t>(row.degree));
  });
}

}  // namespace

bool rows_ascend(const std::int64_t* indptr, std::size_t num_nodes, const std::int64_t* keys, std::size_t num_edges,
                 int num_threads) {
  std::atomic<bool> ascend{true};
  for_each_row(indptr, num_nodes, num_edges, kCompareNanoseconds, num_threads,
               [&](std::int64_t first, std::int64_t last) {
                 if (!std::is_sorted(keys + first, keys + last)) ascend.store(false, std::memory_order_relaxed);
               });
  return ascend.load();
}

void order_rows(const std::int64_t* indptr, std::size_t num_nodes, const std::int64_t* keys, std::size_t num_edges,
                std::int64_t* order, int num_threads) {
  const auto before = [=](std::int64_t a, std::int64_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
  for_each_row(indptr, num_nodes, num_edges, kSortNanoseconds, num_threads, [&](std::int64_t first, std::int64_t last) {
    std::iota(order + first, order + last, first);
    if (!std::is_sorted(keys + first, keys + last)) std::sort(order + first, order + last, before);
  });
}

}  // namespace headrace
