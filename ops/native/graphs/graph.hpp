// The graph as kernels see it: borrowed arrays in CSC order (columns are destinations, entries their in-neighbours).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/errors.hpp"

namespace headrace {

struct Row {
  std::int64_t start;
  std::uint64_t degree;
};

template <class Index>
struct CscView {
  const std::int64_t* indptr;
  std::size_t num_nodes;
  const Index* indices;
  std::size_t num_edges;

  // One compare per row keeps a damaged indptr from reading foreign memory.
  Row row(std::int64_t node) const {
    const std::int64_t start = indptr[node];
    const std::int64_t stop = indptr[node + 1];
    if (start < 0 || stop < start || static_cast<std::uint64_t>(stop) > num_edges) {
      throw InputError("indptr[" + std::to_string(node) + "] = " + std::to_string(start) + " and indptr[" +
                       std::to_string(node + 1) + "] = " + std::to_string(stop) +
                       " do not bound a row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = " +
                       std::to_string(num_edges) + "; run check_csc on the graph");
    }
    return {start, static_cast<std::uint64_t>(stop - start)};
  }
};

}  // namespace headrace
