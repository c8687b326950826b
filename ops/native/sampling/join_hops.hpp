// The hops of a minibatch as one list of edges, each edge once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "graphs/edge_views.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// One hop's block in local ids: row i of every hop are in-edges of the same node, which is destination i.
struct HopEdges {
  const std::int64_t* indptr;
  std::size_t num_rows;
  EdgeIds sources;  // never null: its entries are not positions
  std::size_t num_edges;
  const std::int64_t* edge_ids;  // may be null where there is one hop

  std::size_t degree(std::size_t row) const {
    return row < num_rows ? static_cast<std::size_t>(indptr[row + 1] - indptr[row]) : 0;
  }
};

struct JoinedHops {
  Buffer<std::int64_t> edge_index;  // sources, then destinations
  Buffer<std::int64_t> edge_ids;    // empty where the hops have none
  // Of each hop: positions of kept edges among the first `num_checked`; those behind are all kept.
  std::vector<Buffer<std::int64_t>> kept;
  std::vector<std::size_t> num_checked;
};

// Join hops in their order, without edges whose id an earlier hop has; an edge that one hop has twice stays twice. An
// edge has one destination, so it is looked for in its own row. Throws InputError for an indptr that bounds no rows.
JoinedHops join_hops(const std::vector<HopEdges>& hops);

}  // namespace headrace
