#include "walks/induced.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/id_set.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "sampling/hop.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsPerTask = 256;  // whole rows are read, and hubs make them unequal
constexpr double kEdgeNanoseconds = 4;     // what one thread takes about to look one up

template <class Index>
struct Piece {
  Buffer<Index> indices;
  Buffer<std::int64_t> positions;
};

template <class Index>
void keep_edges(const CscView<Index>& graph, const IdSet& places, const std::int64_t* nodes, std::size_t begin,
                std::size_t end, std::int64_t* counts, Piece<Index>& piece) {
  for (std::size_t i = begin; i < end; ++i) {
    if (i + kPrefetchDistance < end) prefetch_read(graph.indptr + nodes[i + kPrefetchDistance]);
    if (i + kPrefetchDistance / 2 < end) {
      const auto next = static_cast<std::uint64_t>(graph.indptr[nodes[i + kPrefetchDistance / 2]]);
      if (next < graph.num_edges) prefetch_read(graph.indices + next);
    }
    const Row row = graph.row(nodes[i]);
    const std::size_t before = piece.indices.size();
    for (std::int64_t e = row.start; e < row.start + static_cast<std::int64_t>(row.degree); ++e) {
      const std::int64_t place = places.find(static_cast<std::int64_t>(graph.indices[e]));
      if (place == IdSet::kNone) continue;
      piece.indices.push_back(static_cast<Index>(place));
      piece.positions.push_back(e);
    }
    counts[i] = static_cast<std::int64_t>(piece.indices.size() - before);
  }
}

}  // namespace

template <class Index>
Subgraph<Index> induced_subgraph(const CscView<Index>& graph, const std::int64_t* nodes, std::size_t num_nodes,
                                 int num_threads) {
  check_frontier(nodes, num_nodes, graph.num_nodes, "induced_subgraph: nodes");
  IdSet places(num_nodes);
  for (std::size_t i = 0; i < num_nodes; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    if (const std::int64_t first = places.insert(nodes[i], place); first != place) {
      throw InputError("induced_subgraph: nodes[" + std::to_string(first) + "] and nodes[" + std::to_string(i) +
                       "] are both " + std::to_string(nodes[i]) +
                       ": expected distinct nodes; pass them through unique_and_inverse");
    }
  }
  Subgraph<Index> subgraph;
  subgraph.indptr.resize(num_nodes + 1);
  std::int64_t* const counts = subgraph.indptr.data() + 1;
  const double degree =
      static_cast<double>(graph.num_edges) / static_cast<double>(std::max<std::size_t>(graph.num_nodes, 1));
  num_threads = threads_for(num_threads, kEdgeNanoseconds * degree * static_cast<double>(num_nodes));
  const std::size_t num_tasks = num_threads == 1 ? 1 : std::max<std::size_t>(1, num_nodes / kRowsPerTask);
  std::vector<Piece<Index>> pieces(num_tasks);
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    keep_edges(graph, places, nodes, part_bound(num_nodes, num_tasks, task), part_bound(num_nodes, num_tasks, task + 1),
               counts, pieces[task]);
  });
  subgraph.indptr[0] = 0;
  for (std::size_t i = 0; i < num_nodes; ++i) subgraph.indptr[i + 1] += subgraph.indptr[i];
  if (num_tasks == 1) {
    subgraph.indices = std::move(pieces[0].indices);
    subgraph.positions = std::move(pieces[0].positions);
    return subgraph;
  }
  subgraph.indices.resize(static_cast<std::size_t>(subgraph.indptr[num_nodes]));
  subgraph.positions.resize(subgraph.indices.size());
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const Piece<Index>& piece = pieces[task];
    if (piece.indices.size() == 0) return;
    const std::int64_t start = subgraph.indptr[part_bound(num_nodes, num_tasks, task)];
    std::memcpy(subgraph.indices.data() + start, piece.indices.data(), piece.indices.size() * sizeof(Index));
    std::memcpy(subgraph.positions.data() + start, piece.positions.data(),
                piece.positions.size() * sizeof(std::int64_t));
  });
  return subgraph;
}

template Subgraph<std::int32_t> induced_subgraph<std::int32_t>(const CscView<std::int32_t>&, const std::int64_t*,
                                                               std::size_t, int);
template Subgraph<std::int64_t> induced_subgraph<std::int64_t>(const CscView<std::int64_t>&, const std::int64_t*,
                                                               std::size_t, int);

}  // namespace headrace
