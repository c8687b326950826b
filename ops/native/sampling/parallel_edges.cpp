#include "sampling/parallel_edges.hpp"

#include <atomic>
#include <vector>

#include "core/parallel.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsPerTask = 4096;

// Of an edge in a sorted row, which needs no table.
constexpr double kNanoseconds = 1.2;

// Call visit(task, repeats) for each row that has any; `visit` returns whether to go on with the task.
template <class Index, class Visit>
void visit_repeats(const CscView<Index>& graph, int num_threads, const Visit& visit) {
  num_threads = threads_for(num_threads, kNanoseconds * static_cast<double>(graph.num_edges));
  const std::size_t num_tasks = (graph.num_nodes + kRowsPerTask - 1) / kRowsPerTask;
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    RepeatCounter<Index> counter;
    const std::size_t end = std::min(graph.num_nodes, (task + 1) * kRowsPerTask);
    for (std::size_t v = task * kRowsPerTask; v < end; ++v) {
      const Repeats repeats = counter.find(graph.indices, graph.row(static_cast<std::int64_t>(v)));
      if (!repeats.empty() && !visit(task, repeats)) return;
    }
  });
}

}  // namespace

template <class Index>
bool has_parallel_edges(const CscView<Index>& graph, int num_threads) {
  std::atomic<bool> found{false};
  visit_repeats(graph, num_threads, [&](std::size_t, Repeats) {
    found = true;
    return false;
  });
  return found;
}

template <class Index>
ParallelEdges find_parallel_edges(const CscView<Index>& graph, int num_threads) {
  std::vector<Buffer<Repeat>> of_tasks((graph.num_nodes + kRowsPerTask - 1) / kRowsPerTask);
  visit_repeats(graph, num_threads, [&](std::size_t task, Repeats repeats) {
    for (const Repeat& repeat : repeats) of_tasks[task].push_back(repeat);
    return true;
  });
  std::size_t count = 0;
  for (const Buffer<Repeat>& some : of_tasks) count += some.size();
  if (count == 0) return {{}, {}};
  auto all = Buffer<Repeat>::long_lived(count);
  Repeat* out = all.data();
  for (const Buffer<Repeat>& some : of_tasks) out = std::copy_n(some.data(), some.size(), out);
  auto starts = Buffer<std::size_t>::long_lived(graph.num_nodes + 1);
  std::size_t start = 0;
  for (std::size_t v = 0; v <= graph.num_nodes; ++v) {
    while (start < count && all[start].position < graph.indptr[v]) ++start;
    starts[v] = start;
  }
  return {std::move(starts), std::move(all)};
}

template bool has_parallel_edges<std::int32_t>(const CscView<std::int32_t>&, int);
template bool has_parallel_edges<std::int64_t>(const CscView<std::int64_t>&, int);
template ParallelEdges find_parallel_edges<std::int32_t>(const CscView<std::int32_t>&, int);
template ParallelEdges find_parallel_edges<std::int64_t>(const CscView<std::int64_t>&, int);

}  // namespace headrace
