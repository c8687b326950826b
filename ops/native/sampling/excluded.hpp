// Edges that a hop must not pick. Samplers never see them: pickers pick among what is left of a row, which is *packed*,
// its edges numbered without the excluded ones, and picks are unpacked. So a hop with excluded edges is, bit for bit,
// the hop on the graph without them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/id_set.hpp"
#include "graphs/graph.hpp"
#include "sampling/hop.hpp"

namespace headrace {

// As callers give them: those of row rows[i] are at positions[starts[i]] to positions[starts[i + 1]], ascending.
struct ExcludedRows {
  const std::int64_t* rows = nullptr;  // [num_rows] distinct; with slots those of one row side by side
  std::size_t num_rows = 0;
  const std::int64_t* starts = nullptr;     // [num_rows + 1]
  const std::int64_t* positions = nullptr;  // [num_positions]
  std::size_t num_positions = 0;
  const std::int64_t* slots = nullptr;  // [num_rows] the tree that each is for, ascending in a row; null: all
};

// The excluded edges of a segment: positions, ascending.
struct Gaps {
  static constexpr std::size_t kFew = 8;  // gaps that are gone through one by one

  const std::int64_t* positions = nullptr;
  std::size_t count = 0;

  // The position of edge `offset` of those that are left of the segment that begins at `start`.
  std::int64_t unpack(std::int64_t start, std::int64_t offset) const {
    if (count <= kFew) {
      std::int64_t position = start + offset;
      for (std::size_t i = 0; i < count && positions[i] <= position; ++i) ++position;
      return position;
    }
    std::size_t low = 0;
    for (std::size_t high = count; low < high;) {
      const std::size_t middle = low + (high - low) / 2;
      const std::int64_t left_before = positions[middle] - start - static_cast<std::int64_t>(middle);
      if (left_before <= offset) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return start + offset + static_cast<std::int64_t>(low);
  }

  // How many edges are left of the segment before a position.
  std::int64_t pack(std::int64_t start, std::int64_t position) const {
    return position - start - (std::lower_bound(positions, positions + count, position) - positions);
  }

  // Call visit(row) for the runs of edges that are left of a segment.
  template <class Visit>
  void visit_runs(Row row, const Visit& visit) const {
    std::int64_t start = row.start;
    for (std::size_t i = 0; i < count; ++i) {
      visit(Row{start, static_cast<std::uint64_t>(positions[i] - start)});
      start = positions[i] + 1;
    }
    visit(Row{start, row.degree - static_cast<std::uint64_t>(start - row.start)});
  }
};

template <class Index>
class ExcludedEdges {
 public:
  // Borrows both. Throws InputError for rows that are no nodes or come twice, in one tree where there are slots, for
  // positions that are not ascending in their row, and for slots without trees.
  ExcludedEdges(const CscView<Index>& csc, const ExcludedRows& excluded, bool in_trees);

  static constexpr std::int64_t kNone = IdSet::kNone;

  // The number of a row among those that have excluded edges in a tree, or kNone.
  std::int64_t find(std::int64_t row, std::int64_t slot) const {
    const std::int64_t number = numbers_.find(row);
    if (number == kNone || excluded_.slots == nullptr) return number;
    const std::int64_t* const end = excluded_.slots + ends_[static_cast<std::size_t>(number)];
    const std::int64_t* const found = std::lower_bound(excluded_.slots + number, end, slot);
    return found != end && *found == slot ? found - excluded_.slots : kNone;
  }

  // Those of a segment of row `number`.
  Gaps gaps(std::int64_t number, Row segment) const {
    const Gaps all = of_row(number);
    const std::int64_t end = segment.start + static_cast<std::int64_t>(segment.degree);
    // Most segments are whole rows.
    if (all.count != 0 && all.positions[0] >= segment.start && all.positions[all.count - 1] < end) return all;
    const std::int64_t* const first = std::lower_bound(all.positions, all.positions + all.count, segment.start);
    const std::int64_t* const last = std::lower_bound(first, all.positions + all.count, end);
    return {first, static_cast<std::size_t>(last - first)};
  }

  // For rules that read rows: a graph that holds what is left of these rows, one after the other. Call it before
  // several threads ask for packed_start.
  HopGraph<Index> packed_graph(const HopGraph<Index>& graph);
  // Where it has what is left from a position of row `number` on.
  std::int64_t packed_start(std::int64_t number, std::int64_t position) const {
    const auto i = static_cast<std::size_t>(number);
    return packed_starts_[i] + of_row(number).pack(csc_.row(excluded_.rows[i]).start, position);
  }

 private:
  Gaps of_row(std::int64_t number) const {
    const std::int64_t* const start = excluded_.starts + number;
    return {excluded_.positions + start[0], static_cast<std::size_t>(start[1] - start[0])};
  }

  void number_rows();

  template <class T>
  void copy_left(const T* all, Buffer<T>& left) const;

  CscView<Index> csc_;
  ExcludedRows excluded_;
  IdSet numbers_;              // of each row the first of its trees
  Buffer<std::int64_t> ends_;  // [num_rows] with slots, of such a first one where the row's trees end
  Buffer<std::int64_t> packed_starts_;
  Buffer<Index> sources_;
  Buffer<float> narrow_;
  Buffer<double> wide_;
};

}  // namespace headrace
