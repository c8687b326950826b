// Edge list to CSC, and the check of a CSC that came from elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

// A borrowed, possibly strided id array (stride in elements).
template <class Id>
struct StridedIds {
  const Id* data;
  std::ptrdiff_t stride;

  Id operator[](std::size_t i) const { return data[static_cast<std::ptrdiff_t>(i) * stride]; }
  const Id* address(std::size_t i) const { return data + static_cast<std::ptrdiff_t>(i) * stride; }
};

// True when dst already is sorted. Throws InputError for an id outside [0, num_nodes).
template <class Id>
bool check_edges(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes, int num_threads);

// Count in-degrees into indptr[num_nodes + 1] as row starts.
template <class Id>
void count_rows(StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes, std::int64_t* indptr,
                int num_threads);

// Place the edges that count_rows has counted. `edge_ids` may be null when dst is sorted (the order is kept).
template <class Id, class Index, class EdgeId>
void place_edges(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes,
                 std::int64_t* indptr, Index* indices, EdgeId* edge_ids, int num_threads);

// Throws InputError for the first fault of a CSC: wrong ends, a decreasing indptr, an id outside [0, num_ids).
template <class Index>
void check_csc(const CscView<Index>& graph, std::size_t num_ids, int num_threads);

}  // namespace headrace
