// Rows of edges: what every aggregation walks over, a block as it is or transposed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/errors.hpp"
#include "core/instruction_set.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"

namespace headrace {

// Edges indptr[i] to indptr[i + 1] belong to row i, and edge e leads to row indices[e] of another table. In a block
// rows are destinations and indices sources, in a transposed block the other way round.
template <class Index>
struct EdgeRows {
  const std::int64_t* indptr;
  std::size_t num_rows;
  const Index* indices;
  std::size_t num_edges;
  std::size_t num_others;     // rows of the other table
  const Index* positions;     // where each edge stands in arrays of edges; null: edge e at e
  std::size_t num_positions;  // entries of those arrays

  std::size_t begin(std::size_t row) const { return static_cast<std::size_t>(indptr[row]); }
  std::size_t other(std::size_t edge) const { return static_cast<std::size_t>(indices[edge]); }
  std::size_t position(std::size_t edge) const {
    return positions == nullptr ? edge : static_cast<std::size_t>(positions[edge]);
  }
};

// Throws InputError for the first fault: wrong ends, a decreasing indptr, an index or a position out of range. `stage`
// is the operation that a user called.
template <class Index>
void check_edge_rows(const char* stage, const EdgeRows<Index>& rows, int num_threads);

// Rows are cut where edges and rows together are as many on both sides: task t has rows [bound(t), bound(t + 1)).
template <class Index>
std::size_t row_bound(const EdgeRows<Index>& rows, std::size_t num_tasks, std::size_t task) {
  const std::size_t wanted = part_bound(rows.num_edges + rows.num_rows, num_tasks, task);
  std::size_t low = 0;
  std::size_t high = rows.num_rows;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (rows.begin(middle) + middle < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return task == num_tasks ? rows.num_rows : low;
}

// A row is worked on in segments of so many edges, counted from its own beginning: what is rounded by segment does not
// depend on tasks.
constexpr std::size_t kSegment = 32;
constexpr std::size_t kBytesAhead = 8192;  // of rows of the other table that are on their way
constexpr std::size_t kLeastAhead = 4;
constexpr std::size_t kMostAhead = 64;
constexpr std::size_t kMostBytesOfRow = 2048;  // beyond, the hardware follows a row by itself

HEADRACE_INLINE void prefetch_row(const void* row, std::size_t bytes) {
  const char* line = static_cast<const char*>(row);
  const char* const end = line + (bytes < kMostBytesOfRow ? bytes : kMostBytesOfRow);
  line -= reinterpret_cast<std::uintptr_t>(line) % kCacheLineBytes;
  for (; line < end; line += kCacheLineBytes) prefetch_far(line);
}

// What is done with rows: start(row), then add(row, first, last) for segments of its edges, then finish(row);
// prefetch(edge) some edges ahead.
template <class Body, class Index>
HEADRACE_INLINE void walk_rows(Body& body, const EdgeRows<Index>& rows, std::size_t first_row, std::size_t last_row) {
  const std::size_t ahead = std::clamp(kBytesAhead / (body.other_bytes() + 1), kLeastAhead, kMostAhead);
  const std::size_t last = rows.begin(last_row);
  std::size_t fetched = rows.begin(first_row);
  for (std::size_t row = first_row; row < last_row; ++row) {
    const std::size_t end = rows.begin(row + 1);
    body.start(row);
    for (std::size_t edge = rows.begin(row); edge < end;) {
      const std::size_t segment_end = std::min(edge + kSegment, end);
      for (const std::size_t stop = std::min(segment_end + ahead, last); fetched < stop; ++fetched) {
        body.prefetch(fetched);
      }
      body.add(row, edge, segment_end);
      edge = segment_end;
    }
    body.finish(row);
  }
}

template <class Body, class Index>
void walk_portable(Body& body, const EdgeRows<Index>& rows, std::size_t first_row, std::size_t last_row) {
  walk_rows(body, rows, first_row, last_row);
}

#ifdef HEADRACE_X86
template <class Body, class Index>
HEADRACE_AVX2 void walk_avx2(Body& body, const EdgeRows<Index>& rows, std::size_t first_row, std::size_t last_row) {
  walk_rows(body, rows, first_row, last_row);
}

template <class Body, class Index>
HEADRACE_AVX512 void walk_avx512(Body& body, const EdgeRows<Index>& rows, std::size_t first_row, std::size_t last_row) {
  walk_rows(body, rows, first_row, last_row);
}
#endif

template <class Body, class Index>
auto walk_of(InstructionSet set) {
#ifdef HEADRACE_X86
  if (set == InstructionSet::kAvx512) return &walk_avx512<Body, Index>;
  if (set == InstructionSet::kAvx2) return &walk_avx2<Body, Index>;
#endif
  (void)set;
  return &walk_portable<Body, Index>;
}

// Walk over all rows on as many threads as they are worth; make_body() is called once for every task. Rows belong to
// one task each, so the number of threads decides nothing.
template <class Index, class MakeBody>
void for_each_row(const EdgeRows<Index>& rows, double nanoseconds_per_edge, int num_threads,
                  const MakeBody& make_body) {
  using Body = decltype(make_body());
  constexpr double kRowNanoseconds = 10;
  num_threads = threads_for(num_threads, nanoseconds_per_edge * static_cast<double>(rows.num_edges) +
                                             kRowNanoseconds * static_cast<double>(rows.num_rows));
  // No more threads than there is work for.
  num_threads = static_cast<int>(helpers_for(num_threads, rows.num_rows) + 1);
  const std::size_t num_tasks = parts_for(num_threads);
  const auto walk = walk_of<Body, Index>(best_instruction_set());
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    const std::size_t first = row_bound(rows, num_tasks, task);
    const std::size_t last = row_bound(rows, num_tasks, task + 1);
    if (first == last) return;
    Body body = make_body();
    walk(body, rows, first, last);
  });
}

// What one thread takes about for an edge that brings so many bytes.
inline double edge_nanoseconds(std::size_t bytes) { return 3 + static_cast<double>(bytes) / 8; }

}  // namespace headrace
