#include "links/find_edges.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/id_set.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "sampling/hop.hpp"

namespace headrace {
namespace {

constexpr std::size_t kRowsPerTask = 64;
constexpr std::size_t kRowsAhead = 4;
constexpr std::size_t kLinesAhead = 4;
constexpr double kRowNanoseconds = 100;
constexpr std::size_t kBlock = 64;        // edges that are compared before anybody looks which of them it was
constexpr std::size_t kMostCompared = 8;  // sources that an edge is compared with one by one; more are looked up

struct Pair {
  std::int64_t row;
  std::int64_t source;

  bool operator<(const Pair& other) const { return std::pair(row, source) < std::pair(other.row, other.source); }
  bool operator==(const Pair& other) const { return row == other.row && source == other.source; }
};

// A row, and the pairs that end there.
struct Wanted {
  Row row;
  const Pair* first;
  std::size_t count;
};

// Append the positions of edges that come from one of some sources.
template <class Index>
void scan(const Index* indices, const Wanted& wanted, Buffer<std::int64_t>& positions) {
  const Index* const sources = indices + wanted.row.start;
  const auto degree = static_cast<std::size_t>(wanted.row.degree);
  const bool compares = wanted.count <= kMostCompared;
  std::optional<IdSet> set;
  if (!compares) set.emplace(wanted.count);
  Index few[kMostCompared];
  for (std::size_t i = 0; i < wanted.count; ++i) {
    if (compares) {
      few[i] = static_cast<Index>(wanted.first[i].source);
    } else {
      set->insert(wanted.first[i].source, 0);
    }
  }
  const auto is_wanted = [&](Index source) {
    if (!compares) return set->find(source) != IdSet::kNone;
    return std::find(few, few + wanted.count, source) != few + wanted.count;
  };
  for (std::size_t begin = 0; begin < degree; begin += kBlock) {
    const std::size_t end = std::min(degree, begin + kBlock);
    if (compares) {
      Index any = 0;
      for (std::size_t j = 0; j < wanted.count; ++j) {
        for (std::size_t i = begin; i < end; ++i) any = static_cast<Index>(any | Index{sources[i] == few[j]});
      }
      if (any == 0) continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (is_wanted(sources[i])) positions.push_back(wanted.row.start + static_cast<std::int64_t>(i));
    }
  }
}

// Each pair once, by row; without those whose source no entry of `indices` can hold.
template <class Index>
Buffer<Pair> sorted_pairs(const std::int64_t* sources, const std::int64_t* destinations, std::size_t count) {
  Buffer<Pair> pairs;
  pairs.ensure_spare(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::int64_t>(static_cast<Index>(sources[i])) == sources[i]) {
      pairs.push_back({destinations[i], sources[i]});
    }
  }
  std::sort(pairs.data(), pairs.data() + pairs.size());
  pairs.resize(static_cast<std::size_t>(std::unique(pairs.data(), pairs.data() + pairs.size()) - pairs.data()));
  return pairs;
}

template <class Index>
std::vector<Wanted> by_row(const CscView<Index>& csc, const Buffer<Pair>& pairs) {
  std::vector<Wanted> rows;
  visit_prefetched(
      pairs.size(), kPrefetchDistance, [&](std::size_t i) { prefetch_read(csc.indptr + pairs[i].row); },
      [&](std::size_t i) {
        if (i == 0 || pairs[i].row != pairs[i - 1].row) rows.push_back({csc.row(pairs[i].row), &pairs[i], 0});
        ++rows.back().count;
      });
  return rows;
}

}  // namespace

template <class Index>
FoundEdges find_edges(const CscView<Index>& csc, const std::int64_t* sources, const std::int64_t* destinations,
                      std::size_t count, int num_threads) {
  check_frontier(sources, count, csc.num_nodes, "find_edges: sources");
  check_frontier(destinations, count, csc.num_nodes, "find_edges: destinations");
  const Buffer<Pair> pairs = sorted_pairs<Index>(sources, destinations, count);
  const std::vector<Wanted> rows = by_row(csc, pairs);
  const std::size_t num_tasks = (rows.size() + kRowsPerTask - 1) / kRowsPerTask;
  std::vector<Buffer<std::int64_t>> pieces(num_tasks);
  Buffer<std::int64_t> counts(rows.size());
  num_threads = threads_for(num_threads, kRowNanoseconds * static_cast<double>(rows.size()));
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t first = part_bound(rows.size(), num_tasks, task);
    Buffer<std::int64_t>& positions = pieces[task];
    visit_prefetched(
        part_bound(rows.size(), num_tasks, task + 1) - first, kRowsAhead,
        [&](std::size_t i) {
          const Row row = rows[first + i].row;
          constexpr std::uint64_t kMost = kLinesAhead * kCacheLineBytes / sizeof(Index);
          const auto ahead = static_cast<std::size_t>(std::min(row.degree, kMost));
          if (ahead != 0) prefetch_array(csc.indices + row.start, ahead);
        },
        [&](std::size_t i) {
          const std::size_t size = positions.size();
          scan(csc.indices, rows[first + i], positions);
          counts[first + i] = static_cast<std::int64_t>(positions.size() - size);
        });
  });
  FoundEdges found;
  found.starts.push_back(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (counts[i] == 0) continue;
    found.rows.push_back(rows[i].first->row);
    found.starts.push_back(found.starts[found.starts.size() - 1] + counts[i]);
  }
  for (const Buffer<std::int64_t>& piece : pieces) found.positions.extend(piece);
  return found;
}

template FoundEdges find_edges<std::int32_t>(const CscView<std::int32_t>&, const std::int64_t*, const std::int64_t*,
                                             std::size_t, int);
template FoundEdges find_edges<std::int64_t>(const CscView<std::int64_t>&, const std::int64_t*, const std::int64_t*,
                                             std::size_t, int);

}  // namespace headrace
