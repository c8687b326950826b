// Rows of a frontier copied out of a graph that lies in memory of the host. What a warp copies at once is a line of 32
// sources, of int32 what one request over the bus brings. Lines that a cache on this device has are read there.

#include <cstdint>

#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// Position 0 of the array stands `offset` entries behind the beginning of line 0, as memory has it.
inline std::int64_t line_of(std::int64_t position, std::int64_t offset) { return (position + offset) / kWarp; }

// How many lines each row lies in: degrees[i] entries from starts[i] on.
__global__ void count_lines(const std::int64_t* starts, const std::int64_t* degrees, std::int64_t num_rows,
                            std::int64_t offset, std::int64_t* counts) {
  for_each_item(num_rows, [&](std::int64_t i) {
    const std::int64_t last = starts[i] + degrees[i] - 1;
    counts[i] = degrees[i] == 0 ? 0 : line_of(last, offset) - line_of(starts[i], offset) + 1;
  });
}

// The lines of each row, those of row i from lines[first[i]] on; row_of[k] is the row that line k is listed for. Behind
// them there is no line, -1.
__global__ void list_lines(const std::int64_t* starts, std::int64_t num_rows, std::int64_t offset,
                           const std::int64_t* first, std::int64_t room, std::int64_t* row_of, std::int64_t* lines) {
  for_each_item(room, [&](std::int64_t k) {
    const bool is_line = k < first[num_rows];
    const std::int64_t row = is_line ? count_until(first, num_rows, k) - 1 : 0;
    row_of[k] = row;
    lines[k] = is_line ? line_of(starts[row], offset) + k - first[row] : -1;
  });
}

// Let edges, which are positions in rows that were fetched, be those of the graph, or its ids of edges if it has any:
// row i begins at first[i] there and at starts[i] here, and edges[indptr[i]] and behind it are of that row.
template <class EdgeId>
__global__ void return_edges(const std::int64_t* starts, const std::int64_t* first, const std::int64_t* indptr,
                             std::int64_t num_rows, const EdgeId* edge_ids, std::int64_t* edges) {
  for_each_by_warp(num_rows, [&](std::int64_t i, int lane) {
    for (std::int64_t e = indptr[i] + lane; e < indptr[i + 1]; e += kWarp) {
      const std::int64_t position = edges[e] - first[i] + starts[i];
      edges[e] = edge_ids == nullptr ? position : static_cast<std::int64_t>(edge_ids[position]);
    }
  });
}

// Copy the rows, row i to out[first[i]] and behind it. slots[k] is where the cache has line k, or below 0; then
// fills[k] is where it is to have it, or below 0. No slot is read that is filled: who looked up has seen to it. Without
// slots there is no cache. Lines below 0 are none.
template <class Index>
__global__ void copy_lines(const Index* indices, std::int64_t num_edges, std::int64_t offset,
                           const std::int64_t* row_of, const std::int64_t* lines, std::int64_t num_lines,
                           const std::int64_t* slots, const std::int64_t* fills, Index* cache,
                           const std::int64_t* starts, const std::int64_t* degrees, const std::int64_t* first,
                           Index* out) {
  for_each_by_warp(num_lines, [&](std::int64_t k, int lane) {
    if (lines[k] < 0) return;
    const std::int64_t row = row_of[k];
    const std::int64_t position = lines[k] * kWarp - offset + lane;
    const std::int64_t in_row = position - starts[row];
    const bool is_wanted = in_row >= 0 && in_row < degrees[row];
    const std::int64_t slot = slots == nullptr ? -1 : slots[k];
    if (slot >= 0) {
      if (is_wanted) out[first[row] + in_row] = cache[slot * kWarp + lane];
      return;
    }
    // The first and the last line may reach over the ends of the array.
    const std::int64_t fill = slots == nullptr || position < 0 || position >= num_edges ? -1 : fills[k];
    if (!is_wanted && fill < 0) return;
    const Index source = indices[position];
    if (is_wanted) out[first[row] + in_row] = source;
    if (fill >= 0) cache[fill * kWarp + lane] = source;
  });
}

}  // namespace headrace
