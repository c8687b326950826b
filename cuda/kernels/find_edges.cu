// Twin of ops/native/links/find_edges.hpp. Rows of the pairs' destinations are read edge by edge, whatever their
// lengths: the sources that are looked for in a row are ascending, and each edge finds its own by bisection.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"
#include "row_ranks.cuh"
#include "segments.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kWrongEnds = 0;           // indptr does not run from 0 to the number of edges
constexpr int kForeignSource = 1;       // the source of a pair is no row
constexpr int kForeignDestination = 2;  // its destination is none
constexpr int kBrokenRow = 3;           // indptr does not bound the row of a pair

// A range of nodes in which a relation may end; see TypedRows.ranges.
struct RelationRange {
  std::int64_t relation;
  std::int64_t first_node;
  std::int64_t end_node;
  std::int64_t first_row;
  std::int64_t stride;
};

// The row that each pair is looked for in, -1 for none. With `ranges` it is that of the pair's relation, and a
// destination that the relation does not end in has none.
__global__ void place_pairs(const std::int64_t* indptr, std::int64_t num_bounded, std::int64_t num_rows,
                            std::int64_t num_edges, const std::int64_t* sources, const std::int64_t* destinations,
                            std::int64_t num_pairs, const RelationRange* ranges, std::int64_t num_ranges,
                            const std::int64_t* relations, std::int64_t* rows, std::int64_t* faults) {
  if (thread_of_grid() == 0 && (indptr[0] != 0 || indptr[num_bounded] != num_edges)) report(faults, kWrongEnds, 0);
  for_each_item(num_pairs, [&](std::int64_t i) {
    rows[i] = -1;
    if (sources[i] < 0 || sources[i] >= num_rows) return report(faults, kForeignSource, i);
    const std::int64_t node = destinations[i];
    if (ranges == nullptr) {
      if (node < 0 || node >= num_rows) return report(faults, kForeignDestination, i);
      rows[i] = node;
      return;
    }
    for (std::int64_t k = 0; k < num_ranges; ++k) {
      const RelationRange& range = ranges[k];
      if (range.relation != relations[i] || node < range.first_node || node >= range.end_node) continue;
      rows[i] = range.first_row + (node - range.first_node) * range.stride;
    }
  });
}

// How many edges have to be read for each pair: those of its row for the first pair of a row, none for the others.
__global__ void measure_rows(const std::int64_t* indptr, const std::uint64_t* ranks, std::int64_t num_edges,
                             const std::int64_t* rows, std::int64_t num_pairs, std::int64_t* lengths,
                             std::int64_t* faults) {
  for_each_item(num_pairs, [&](std::int64_t i) {
    lengths[i] = 0;
    if (rows[i] < 0 || (i > 0 && rows[i] == rows[i - 1])) return;
    const std::int64_t place = RowRanks{ranks}.find(rows[i]);
    if (place < 0) return;
    const std::int64_t start = indptr[place];
    const std::int64_t stop = indptr[place + 1];
    if (start < 0 || stop < start || stop > num_edges) return report(faults, kBrokenRow, i);
    lengths[i] = stop - start;
  });
}

// Pairs ascending by row, then by source, then by group.
struct SortedPairs {
  const std::int64_t* rows;
  const std::int64_t* sources;
  const std::int64_t* groups;
  const std::int64_t* wanted;  // the ids of the edges that are meant, or null where all are
  std::int64_t count;

  // The first pair of a row, which begins at pair `first`, with a source or a larger one.
  std::int64_t find(std::int64_t first, std::int64_t source) const {
    const std::int64_t row = rows[first];
    std::int64_t last = count;
    while (first < last) {
      const std::int64_t middle = first + (last - first) / 2;
      if (rows[middle] == row && sources[middle] < source) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
    return first;
  }
};

// List each edge of a row of pairs for each group that has a pair of it, in any order, as far as there is room; count
// all of them, and those of each group.
template <class Index, class EdgeId>
__global__ void match_edges(const std::int64_t* indptr, const std::uint64_t* ranks, const Index* indices,
                            const EdgeId* edge_ids, const std::int64_t* rows, const std::int64_t* sources,
                            const std::int64_t* groups, const std::int64_t* wanted, std::int64_t num_pairs,
                            const std::int64_t* ends, std::int64_t room, std::int64_t* positions,
                            std::int64_t* of_groups, std::int64_t* counts, std::int64_t* total) {
  const SortedPairs pairs{rows, sources, groups, wanted, num_pairs};
  for_each_item(ends[num_pairs - 1], [&](std::int64_t item) {
    const std::int64_t first = count_until(ends, num_pairs, item);
    const std::int64_t before = first == 0 ? 0 : ends[first - 1];
    const std::int64_t position = indptr[RowRanks{ranks}.find(rows[first])] + (item - before);
    const auto source = static_cast<std::int64_t>(indices[position]);
    const std::int64_t id = edge_ids == nullptr ? position : static_cast<std::int64_t>(edge_ids[position]);
    std::int64_t k = pairs.find(first, source);
    while (k < num_pairs && rows[k] == rows[first] && sources[k] == source) {
      const std::int64_t group = groups[k];
      bool is_meant = false;
      for (; k < num_pairs && groups[k] == group && sources[k] == source; ++k) {
        is_meant = is_meant || wanted == nullptr || wanted[k] == id;
      }
      if (!is_meant) continue;
      atomicAdd(reinterpret_cast<unsigned long long*>(counts) + group, 1ULL);
      const auto place = static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(total), 1ULL));
      if (place >= room) continue;
      positions[place] = position;
      of_groups[place] = group;
    }
  });
}

}  // namespace headrace
