// The graph as kernels see it: borrowed arrays in CSC order (columns are destinations, entries their in-neighbours).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/errors.hpp"
#include "core/prefetch.hpp"
#include "graphs/row_ranks.hpp"

namespace headrace {

struct Row {
  std::int64_t start;
  std::uint64_t degree;
};

// Of a part of a graph `ranks` says which nodes have a row in indptr; the rows of all others are empty.
template <class Index>
struct CscView {
  const std::int64_t* indptr;  // [num_nodes + 1], or an entry for each node of `ranks` and one more
  std::size_t num_nodes;
  const Index* indices;
  std::size_t num_edges;
  RowRanks ranks{};

  // The rows that are at hand, as those of a whole graph.
  CscView rows() const { return ranks.all() ? *this : CscView{indptr, ranks.size, indices, num_edges}; }

  // Which of these is a node's; -1 for none.
  std::int64_t place(std::int64_t node) const { return ranks.all() ? node : ranks.find(node); }

  Row row(std::int64_t node) const {
    const std::int64_t place = this->place(node);
    return place < 0 ? Row{0, 0} : row_at(place);
  }

  // What is read first of a node's row.
  void prefetch(std::int64_t node) const {
    if (!ranks.all()) return ranks.prefetch(node);
    prefetch_far(indptr + node);
    prefetch_far(indptr + node + 1);  // may be on the next cache line
  }

  // One compare per row keeps a damaged indptr from reading foreign memory.
  Row row_at(std::int64_t place) const {
    const std::int64_t start = indptr[place];
    const std::int64_t stop = indptr[place + 1];
    if (start < 0 || stop < start || static_cast<std::uint64_t>(stop) > num_edges) {
      throw InputError("indptr[" + std::to_string(place) + "] = " + std::to_string(start) + " and indptr[" +
                       std::to_string(place + 1) + "] = " + std::to_string(stop) +
                       " do not bound a row: expected 0 <= indptr[i] <= indptr[i + 1] <= num_edges = " +
                       std::to_string(num_edges) + "; run check_csc on the graph");
    }
    return {start, static_cast<std::uint64_t>(stop - start)};
  }
};

}  // namespace headrace
