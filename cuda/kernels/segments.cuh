// Where in-edges of rows are, and what bounds leave of them.
#pragma once

#include <cstdint>

#include "faults.cuh"
#include "row_ranks.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kNoNode = 0;    // an element of the frontier is no node
constexpr int kNoTree = 1;    // the slot of a seed is no tree
constexpr int kNoRow = 3;     // indptr does not bound its row
constexpr int kNoSource = 4;  // a picked edge comes from no node

// Edges of a row at the bound or earlier; times ascend within a row. Or of ascending sums those up to one.
template <class Number>
std::int64_t count_until(const Number* times, std::int64_t count, Number bound) {
  std::int64_t first = 0;
  while (first < count) {
    const std::int64_t middle = first + (count - first) / 2;
    if (times[middle] <= bound) {
      first = middle + 1;
    } else {
      count = middle;
    }
  }
  return first;
}

// Of ascending numbers those below one: edges of a row earlier than the lower bound, or positions before another.
inline std::int64_t count_before(const std::int64_t* numbers, std::int64_t count, std::int64_t low) {
  std::int64_t first = 0;
  while (first < count) {
    const std::int64_t middle = first + (count - first) / 2;
    if (numbers[middle] < low) {
      first = middle + 1;
    } else {
      count = middle;
    }
  }
  return first;
}

// Rows of in-edges, and of each element of a frontier the bounds that cut its row; null for none.
struct BoundedRows {
  const std::int64_t* indptr;
  RowRanks ranks;  // which rows indptr bounds; all others are empty
  std::int64_t num_edges;
  const std::int64_t* times;
  const std::int64_t* bounds;
  const std::int64_t* lows;

  // What element i may pick from of a row: `degree` edges from position `start` on. Of no row both stay as they are.
  void find(std::int64_t row, std::int64_t i, std::int64_t* start, std::int64_t* degree, std::int64_t* faults) const {
    const std::int64_t place = ranks.find(row);
    if (place < 0) return;
    const std::int64_t first = indptr[place];
    const std::int64_t stop = indptr[place + 1];
    if (first < 0 || stop < first || stop > num_edges) return report(faults, kNoRow, i);
    const std::int64_t count = bounds == nullptr ? stop - first : count_until(times + first, stop - first, bounds[i]);
    const std::int64_t early = lows == nullptr ? 0 : count_before(times + first, count, lows[i]);
    *start = first + early;
    *degree = count - early;
  }
};

// What is at the picked positions of a graph.
template <class Index, class EdgeId>
struct PickedEdges {
  const Index* indices;
  std::int64_t num_nodes;
  const EdgeId* edge_ids;
  const std::int64_t* positions;

  // The source of edge e, and its id if there are `edges`. Without `faults` sources are taken as they are.
  void look_up(std::int64_t e, Index* neighbors, std::int64_t* edges, std::int64_t* faults) const {
    const std::int64_t position = positions[e];
    const Index source = indices[position];
    if (faults != nullptr && (source < 0 || static_cast<std::int64_t>(source) >= num_nodes)) {
      neighbors[e] = 0;
      return report(faults, kNoSource, e);
    }
    neighbors[e] = source;
    if (edges != nullptr) edges[e] = edge_ids == nullptr ? position : static_cast<std::int64_t>(edge_ids[position]);
  }
};

}  // namespace headrace
