// Edge list to CSC where rows are too many for the caches: first by groups of rows, then within each group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/csc.hpp"

namespace headrace {

// Whether an edge list of this size is placed faster by place_by_bucket than by place_edges, and can be: a source, an
// edge and a row within its bucket fit in 64 bits together. 10^9 edges do up to 2^22 nodes, 2^28 edges up to 2^23.
bool has_buckets(std::size_t num_nodes, std::size_t num_edges);

// What count_rows and place_edges do together, for edges that check_edges has passed: indptr[num_nodes + 1],
// indices[num_edges], edge_ids[num_edges]. In between, the edges of a bucket (a group of consecutive rows) wait in the
// output arrays themselves, packed into 64 bits each, so that hardly any other memory is needed.
template <class Id, class Index, class EdgeId>
void place_by_bucket(StridedIds<Id> src, StridedIds<Id> dst, std::size_t num_edges, std::size_t num_nodes,
                     std::int64_t* indptr, Index* indices, EdgeId* edge_ids, int num_threads);

}  // namespace headrace
