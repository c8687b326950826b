// The in-edges that an element of the frontier may pick from. This is the one place that knows of rows and bounds:
// pickers see a segment, whatever cut it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/prefetch.hpp"
#include "graphs/edge_views.hpp"
#include "graphs/graph.hpp"
#include "sampling/excluded.hpp"
#include "sampling/frontier.hpp"

namespace headrace {

// A run of one node's in-edges: all of its row, or what bounds leave of it. Some of them may be excluded.
struct Segment {
  std::int64_t node;
  Row row;
  std::int64_t excluded = IdSet::kNone;  // the number of the row among those with excluded edges
};

template <class Index>
class SegmentFinder {
 public:
  // `times` are read where the frontier has bounds.
  SegmentFinder(const HopGraph<Index>& graph, const Frontier& frontier)
      : csc_(graph.csc), times_(graph.times), excluded_(graph.excluded), frontier_(frontier) {}

  Segment operator()(std::size_t i) const { return cut(i, row(i)); }

  // The whole row, and what bounds leave of it.
  Segment row(std::size_t i) const {
    const std::int64_t node = frontier_.nodes[i];
    if (excluded_ == nullptr) return {node, csc_.row(node)};
    return {node, csc_.row(node), excluded_->find(node, frontier_.slots == nullptr ? 0 : frontier_.slots[i])};
  }
  Segment cut(std::size_t i, Segment segment) const {
    Row row = segment.row;
    if (frontier_.bounds != nullptr) row.degree = count_until(row, frontier_.bounds[i]);
    if (frontier_.lows != nullptr) {
      const std::uint64_t early = count_before(row, frontier_.lows[i]);
      row = {row.start + static_cast<std::int64_t>(early), row.degree - early};
    }
    return {segment.node, row, segment.excluded};
  }

  bool cuts() const { return frontier_.bounds != nullptr; }

  // What a cut reads first: of short rows all.
  void prefetch_times(Row row) const {
    if (row.degree == 0) return;
    prefetch_far(times_ + row.start + row.degree / 2);
    prefetch_far(times_ + row.start + row.degree / 4);
    prefetch_far(times_ + row.start + row.degree - row.degree / 4 - 1);
  }

  void prefetch(std::size_t i) const { csc_.prefetch(frontier_.nodes[i]); }

 private:
  // Edges of the row at the bound or earlier.
  std::uint64_t count_until(Row row, std::int64_t bound) const {
    const std::int64_t* const first = times_ + row.start;
    return static_cast<std::uint64_t>(std::upper_bound(first, first + row.degree, bound) - first);
  }

  // Edges of the row earlier than the lower bound.
  std::uint64_t count_before(Row row, std::int64_t low) const {
    const std::int64_t* const first = times_ + row.start;
    return static_cast<std::uint64_t>(std::lower_bound(first, first + row.degree, low) - first);
  }

  CscView<Index> csc_;
  EdgeTimes times_;
  const ExcludedEdges<Index>* excluded_;
  Frontier frontier_;
};

}  // namespace headrace
