// Twin of ops/native/aggregate/sddmm.cpp: a dot product for each edge and head, at the positions of the edges. Edges
// are shared out whatever row they are of, so rows of many edges take no longer than others.

#include <cstdint>

#include "dot.cuh"
#include "edge_rows.cuh"
#include "grid.cuh"

namespace headrace {

template <class Value, class Index>
__global__ void sddmm(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices, const Index* positions,
                      std::int64_t num_edges, const Value* a, const Value* b, std::int64_t width, std::int64_t heads,
                      Value* out) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const std::int64_t head_width = width / heads;
  for_each_dot(num_edges * heads, [&](std::int64_t i, bool is_one) {
    const std::int64_t edge = is_one ? i / heads : 0;
    const std::int64_t at = is_one ? i % heads * head_width : 0;
    const Value sum =
        dot(a + rows.row_of(edge) * width + at, b + rows.other(edge) * width + at, is_one ? head_width : 0);
    if (is_one && writes_dot()) out[rows.position(edge) * heads + i % heads] = sum;
  });
}

// Of the columns that an edge has won alone, which the CPU adds from left to right: a thread for each edge and head.
template <class Value, class Index>
__global__ void sddmm_won(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices,
                          const Index* positions, std::int64_t num_edges, const Value* a, const Value* b,
                          std::int64_t width, std::int64_t heads, Value* out, const std::int64_t* winners) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const std::int64_t head_width = width / heads;
  for_each_item(num_edges * heads, [&](std::int64_t i) {
    const std::int64_t edge = i / heads;
    const std::int64_t at = i % heads * head_width;
    const std::int64_t position = rows.position(edge);
    const std::int64_t left = rows.row_of(edge) * width + at;
    const std::int64_t right = rows.other(edge) * width + at;
    Value sum = 0;
    for (std::int64_t column = 0; column < head_width; ++column) {
      if (winners[left + column] == position) sum = sum + a[left + column] * b[right + column];
    }
    out[position * heads + i % heads] = sum;
  });
}

}  // namespace headrace
