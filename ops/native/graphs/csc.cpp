#include "graphs/csc.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/id_range.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"

namespace headrace {
namespace {

// What one thread takes about for an edge.
constexpr double kCheckNanoseconds = 1;
constexpr double kCountNanoseconds = 3;
constexpr double kPlaceNanoseconds = 10;

template <class Id>
void check_ids(StridedIds<Id> ids, std::size_t begin, std::size_t end, std::size_t num_nodes, const char* name) {
  const std::size_t i = first_out_of_range(ids, begin, end, num_nodes);
  if (i == end) return;
  throw InputError(std::string(name) + "[" + std::to_string(i) + "] = " + std::to_string(ids[i]) +
                   " is not a node id: expected 0 <= id < num_nodes = " + std::to_string(num_nodes) +
                   "; correct the id or raise num_nodes");
}

}  // namespace

template <class Id>
bool check_edges(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes,
                 int num_threads) {
  num_threads = threads_for(num_threads, kCheckNanoseconds * static_cast<double>(num_edges));
  const std::size_t num_parts = parts_for(num_threads);
  std::vector<char> part_sorted(num_parts, 1);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t begin = part_bound(num_edges, num_parts, part);
    const std::size_t end = part_bound(num_edges, num_parts, part + 1);
    check_ids(src, begin, end, num_nodes, "coo_to_csc: src");
    check_ids(dst, begin, end, num_nodes, "coo_to_csc: dst");
    bool sorted = true;
    for (std::size_t i = std::max<std::size_t>(begin, 1); i < end; ++i) sorted &= dst[i - 1] <= dst[i];
    part_sorted[part] = sorted ? 1 : 0;
  });
  return std::all_of(part_sorted.begin(), part_sorted.end(), [](char sorted) { return sorted != 0; });
}

template <class Id>
void count_rows(StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes, std::int64_t* indptr,
                int num_threads) {
  num_threads = threads_for(num_threads, kCountNanoseconds * static_cast<double>(num_edges));
  const auto num_parts = static_cast<std::size_t>(num_threads);
  // Each part owns a range of destinations and reads all edges: sequential reads are cheap beside random increments,
  // the counts need neither atomics nor one histogram per thread (which would break the memory bound).
  std::fill(indptr, indptr + num_nodes + 1, 0);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t first = part_bound(num_nodes, num_parts, part);
    const std::size_t owned = part_bound(num_nodes, num_parts, part + 1) - first;
    std::int64_t* const counts = indptr + 1 + first;
    for (std::size_t i = 0; i < num_edges; ++i) {
      if (i + kPrefetchDistance < num_edges) {
        const std::size_t ahead = static_cast<std::size_t>(dst[i + kPrefetchDistance]) - first;
        if (ahead < owned) prefetch_write(counts + ahead);
      }
      const std::size_t row = static_cast<std::size_t>(dst[i]) - first;
      if (row < owned) ++counts[row];
    }
  });
  for (std::size_t v = 0; v < num_nodes; ++v) indptr[v + 1] += indptr[v];
}

template <class Id, class Index, class EdgeId>
void place_edges(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes,
                 std::int64_t* indptr, Index* indices, EdgeId* edge_ids, int num_threads) {
  num_threads = threads_for(num_threads, kPlaceNanoseconds * static_cast<double>(num_edges));
  const auto num_parts = static_cast<std::size_t>(num_threads);
  if (edge_ids == nullptr) {
    parallel_for(num_threads, num_parts, [&](std::size_t part) {
      const std::size_t end = part_bound(num_edges, num_parts, part + 1);
      for (std::size_t i = part_bound(num_edges, num_parts, part); i < end; ++i)
        indices[i] = static_cast<Index>(src[i]);
    });
    return;
  }
  // The rows' write cursors live in indptr itself: moved one entry up, cursor[v] starts at the start of row v and ends
  // at its end, which is what indptr[v + 1] has to hold. Parts own destination ranges of about equal numbers of edges.
  std::vector<std::size_t> first_row(num_parts + 1, num_nodes);
  first_row[0] = 0;
  for (std::size_t part = 1; part < num_parts; ++part) {
    const auto target = static_cast<std::int64_t>(part_bound(num_edges, num_parts, part));
    const auto found = std::lower_bound(indptr, indptr + num_nodes, target);
    first_row[part] = static_cast<std::size_t>(found - indptr);
  }
  std::copy_backward(indptr, indptr + num_nodes, indptr + num_nodes + 1);
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t first = first_row[part];
    const std::size_t owned = first_row[part + 1] - first;
    std::int64_t* const cursors = indptr + 1 + first;
    for (std::size_t i = 0; i < num_edges; ++i) {
      if (i + 2 * kPrefetchDistance < num_edges) {
        const std::size_t ahead = static_cast<std::size_t>(dst[i + 2 * kPrefetchDistance]) - first;
        if (ahead < owned) prefetch_write(cursors + ahead);
      }
      if (i + kPrefetchDistance < num_edges) {
        const std::size_t ahead = static_cast<std::size_t>(dst[i + kPrefetchDistance]) - first;
        if (ahead < owned) {
          prefetch_write(indices + cursors[ahead]);
          prefetch_write(edge_ids + cursors[ahead]);
        }
      }
      const std::size_t row = static_cast<std::size_t>(dst[i]) - first;
      if (row >= owned) continue;
      const std::int64_t position = cursors[row]++;
      indices[position] = static_cast<Index>(src[i]);
      edge_ids[position] = static_cast<EdgeId>(i);
    }
  });
}

template <class Index>
void check_csc(const CscView<Index>& graph, std::size_t num_ids, int num_threads) {
  if (graph.indptr[0] != 0 || graph.indptr[graph.num_nodes] != static_cast<std::int64_t>(graph.num_edges)) {
    throw InputError("check_csc: indptr runs from " + std::to_string(graph.indptr[0]) + " to " +
                     std::to_string(graph.indptr[graph.num_nodes]) +
                     ": expected from 0 to len(indices) = " + std::to_string(graph.num_edges));
  }
  num_threads = threads_for(num_threads, kCheckNanoseconds * static_cast<double>(graph.num_nodes + graph.num_edges));
  const std::size_t num_parts = parts_for(num_threads);
  parallel_for_each(num_threads, graph.num_nodes, [&](std::size_t v) {
    if (graph.indptr[v] <= graph.indptr[v + 1]) return;
    throw InputError("check_csc: indptr decreases: indptr[" + std::to_string(v) +
                     "] = " + std::to_string(graph.indptr[v]) + ", indptr[" + std::to_string(v + 1) +
                     "] = " + std::to_string(graph.indptr[v + 1]) + "; expected the running sum of in-degrees");
  });
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    check_ids(StridedIds<Index>{graph.indices, 1}, part_bound(graph.num_edges, num_parts, part),
              part_bound(graph.num_edges, num_parts, part + 1), num_ids, "check_csc: indices");
  });
}

#define HEADRACE_INSTANTIATE(Id, Index, EdgeId)                                                          \
  template void place_edges<Id, Index, EdgeId>(StridedIds<Id>, StridedIds<Id>, std::size_t, std::size_t, \
                                               std::int64_t*, Index*, EdgeId*, int);
HEADRACE_INSTANTIATE(std::int32_t, std::int32_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int32_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int32_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int32_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int64_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int32_t, std::int64_t, std::int64_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int64_t, std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t, std::int64_t, std::int64_t)
#undef HEADRACE_INSTANTIATE

#define HEADRACE_INSTANTIATE(Id)                                                                \
  template bool check_edges<Id>(StridedIds<Id>, StridedIds<Id>, std::size_t, std::size_t, int); \
  template void count_rows<Id>(StridedIds<Id>, std::size_t, std::size_t, std::int64_t*, int);
HEADRACE_INSTANTIATE(std::int32_t)
HEADRACE_INSTANTIATE(std::int64_t)
#undef HEADRACE_INSTANTIATE

template void check_csc<std::int32_t>(const CscView<std::int32_t>&, std::size_t, int);
template void check_csc<std::int64_t>(const CscView<std::int64_t>&, std::size_t, int);

}  // namespace headrace
