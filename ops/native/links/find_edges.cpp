#include "links/find_edges.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
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
  std::int64_t slot;
  std::int64_t source;

  bool operator<(const Pair& other) const {
    return std::tuple(row, slot, source) < std::tuple(other.row, other.slot, other.source);
  }
  bool operator==(const Pair& other) const { return row == other.row && slot == other.slot && source == other.source; }
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

// Each pair once, by row and slot; without those whose source no entry of `indices` can hold.
template <class Index>
Buffer<Pair> sorted_pairs(const std::int64_t* sources, const std::int64_t* destinations, const std::int64_t* slots,
                          std::size_t count) {
  Buffer<Pair> pairs;
  pairs.ensure_spare(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::int64_t>(static_cast<Index>(sources[i])) == sources[i]) {
      pairs.push_back({destinations[i], slots == nullptr ? 0 : slots[i], sources[i]});
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
      pairs.size(), kPrefetchDistance, [&](std::size_t i) { csc.prefetch(pairs[i].row); },
      [&](std::size_t i) {
        if (i == 0 || pairs[i].row != pairs[i - 1].row) rows.push_back({csc.row(pairs[i].row), &pairs[i], 0});
        ++rows.back().count;
      });
  return rows;
}

// Edges of rows told for each tree that has a pair of them: `edges` has them by row.
template <class Index>
FoundEdges by_tree(const Index* indices, const std::vector<Wanted>& rows, const FoundEdges& edges) {
  FoundEdges found;
  found.starts.push_back(0);
  std::vector<std::pair<std::int64_t, std::int64_t>> by_source;  // and position
  std::size_t next = 0;
  for (const Wanted& wanted : rows) {
    if (next == edges.rows.size() || edges.rows[next] != wanted.first->row) continue;
    by_source.clear();
    for (std::int64_t e = edges.starts[next]; e < edges.starts[next + 1]; ++e) {
      const std::int64_t position = edges.positions[static_cast<std::size_t>(e)];
      by_source.emplace_back(static_cast<std::int64_t>(indices[position]), position);
    }
    ++next;
    std::sort(by_source.begin(), by_source.end());
    const Pair* const end = wanted.first + wanted.count;
    for (const Pair* pair = wanted.first; pair != end;) {
      const Pair* const first = pair;
      const std::size_t size = found.positions.size();
      for (; pair != end && pair->slot == first->slot; ++pair) {
        auto edge = std::lower_bound(by_source.begin(), by_source.end(), std::pair(pair->source, std::int64_t{0}));
        for (; edge != by_source.end() && edge->first == pair->source; ++edge) found.positions.push_back(edge->second);
      }
      if (found.positions.size() == size) continue;
      std::sort(found.positions.data() + size, found.positions.data() + found.positions.size());
      found.rows.push_back(first->row);
      found.slots.push_back(first->slot);
      found.starts.push_back(static_cast<std::int64_t>(found.positions.size()));
    }
  }
  return found;
}

}  // namespace

template <class Index>
FoundEdges find_edges(const CscView<Index>& csc, const std::int64_t* sources, const std::int64_t* destinations,
                      const std::int64_t* slots, std::size_t count, int num_threads) {
  check_frontier(sources, count, csc.num_nodes, "find_edges: sources");
  check_frontier(destinations, count, csc.num_nodes, "find_edges: destinations");
  const Buffer<Pair> pairs = sorted_pairs<Index>(sources, destinations, slots, count);
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
  return slots == nullptr ? std::move(found) : by_tree(csc.indices, rows, found);
}

template FoundEdges find_edges<std::int32_t>(const CscView<std::int32_t>&, const std::int64_t*, const std::int64_t*,
                                             const std::int64_t*, std::size_t, int);
template FoundEdges find_edges<std::int64_t>(const CscView<std::int64_t>&, const std::int64_t*, const std::int64_t*,
                                             const std::int64_t*, std::size_t, int);

}  // namespace headrace
