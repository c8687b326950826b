// The order that sorts each row of a graph by keys of its edges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Whether keys ascend within each row already. Throws InputError for an indptr that does not bound rows.
bool rows_ascend(const std::int64_t* indptr, std::size_t num_nodes, const std::int64_t* keys, std::size_t num_edges,
                 int num_threads);

// order[num_edges]: CSC positions, row by row, by key; equal keys stay in their order.
void order_rows(const std::int64_t* indptr, std::size_t num_nodes, const std::int64_t* keys, std::size_t num_edges,
                std::int64_t* order, int num_threads);

}  // namespace headrace
