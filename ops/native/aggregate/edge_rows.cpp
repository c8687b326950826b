#include "aggregate/edge_rows.hpp"

#include <string>
#include <type_traits>

namespace headrace {
namespace {

constexpr double kCheckNanoseconds = 0.3;  // what one thread takes about for an entry
constexpr std::size_t kEntriesPerTask = std::size_t{1} << 18;

// Throws for the first entry that is not below `bound`; the largest of all is found first, without a branch each.
template <class Index>
void check_below(const char* stage, const char* name, const Index* ids, std::size_t count, std::size_t bound,
                 int num_threads) {
  using Unsigned = std::make_unsigned_t<Index>;
  const std::size_t num_tasks = (count + kEntriesPerTask - 1) / kEntriesPerTask;
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t first = part_bound(count, num_tasks, task);
    const std::size_t last = part_bound(count, num_tasks, task + 1);
    Unsigned largest = 0;
    for (std::size_t i = first; i < last; ++i) largest = std::max(largest, static_cast<Unsigned>(ids[i]));
    if (first == last || largest < bound) return;
    const Index* const bad =
        std::find_if(ids + first, ids + last, [&](Index id) { return static_cast<Unsigned>(id) >= bound; });
    throw InputError(std::string(stage) + ": " + name + "[" + std::to_string(bad - ids) +
                     "] = " + std::to_string(*bad) + " has no row: expected 0 <= it < " + std::to_string(bound));
  });
}

}  // namespace

template <class Index>
void check_edge_rows(const char* stage, const EdgeRows<Index>& rows, int num_threads) {
  const std::int64_t* const indptr = rows.indptr;
  if (indptr[0] != 0 || indptr[rows.num_rows] != static_cast<std::int64_t>(rows.num_edges)) {
    throw InputError(std::string(stage) + ": indptr runs from " + std::to_string(indptr[0]) + " to " +
                     std::to_string(indptr[rows.num_rows]) +
                     ": expected from 0 to len(indices) = " + std::to_string(rows.num_edges));
  }
  for (std::size_t i = 0; i < rows.num_rows; ++i) {
    if (indptr[i] <= indptr[i + 1]) continue;
    throw InputError(std::string(stage) + ": indptr decreases: indptr[" + std::to_string(i) +
                     "] = " + std::to_string(indptr[i]) + ", indptr[" + std::to_string(i + 1) +
                     "] = " + std::to_string(indptr[i + 1]) + "; expected the running sum of degrees");
  }
  num_threads = threads_for(num_threads, kCheckNanoseconds * static_cast<double>(rows.num_edges));
  check_below(stage, "indices", rows.indices, rows.num_edges, rows.num_others, num_threads);
  if (rows.positions != nullptr) {
    check_below(stage, "positions", rows.positions, rows.num_edges, rows.num_positions, num_threads);
  } else if (rows.num_positions < rows.num_edges) {
    throw InputError(std::string(stage) + ": expected an entry for each of " + std::to_string(rows.num_edges) +
                     " edges, got " + std::to_string(rows.num_positions));
  }
}

template void check_edge_rows<std::int32_t>(const char*, const EdgeRows<std::int32_t>&, int);
template void check_edge_rows<std::int64_t>(const char*, const EdgeRows<std::int64_t>&, int);

}  // namespace headrace
