#include "parallel_edges.hpp"

#include <atomic>

#include "parallel.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsPerTask = 4096;

// Of an edge in a sorted row, which needs no table.
constexpr double kNanoseconds = 1.2;

}  // namespace

template <class Index>
bool has_parallel_edges(const CscView<Index>& graph, int num_threads) {
  num_threads = threads_for(num_threads, kNanoseconds * static_cast<double>(graph.num_edges));
  const std::size_t num_tasks = (graph.num_nodes + kRowsPerTask - 1) / kRowsPerTask;
  std::atomic<bool> found{false};
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    Occurrences<Index> occurrences;
    const std::size_t end = part_bound(graph.num_nodes, num_tasks, task + 1);
    for (std::size_t v = part_bound(graph.num_nodes, num_tasks, task); v < end; ++v) {
      if (found.load(std::memory_order_relaxed)) return;
      const Row row = graph.row(static_cast<std::int64_t>(v));
      if (occurrences.has_repeats(graph.indices + row.start, static_cast<std::size_t>(row.degree))) found = true;
    }
  });
  return found;
}

template bool has_parallel_edges<std::int32_t>(const CscView<std::int32_t>&, int);
template bool has_parallel_edges<std::int64_t>(const CscView<std::int64_t>&, int);

}  // namespace headrace
