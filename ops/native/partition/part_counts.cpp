#include "partition/part_counts.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/prefetch.hpp"
#include "partition/stream_partition.hpp"

namespace headrace {
namespace {

// How many nodes ahead the sources of a row are prefetched, and how many of them; the rest is prefetched as the row is
// read.
constexpr std::size_t kSourcesAhead = 4;
constexpr std::size_t kFirstEntries = 16;

template <class Index>
class Counting {
 public:
  Counting(const CscView<Index>& graph, PartGrid grid, PartCounts& counts)
      : graph_(graph), grid_(grid), counts_(counts), seen_(graph.num_nodes) {
    for (std::int64_t part = 0; part < grid.num_parts; ++part) {
      row_of_.push_back(static_cast<std::int32_t>(part / grid.num_columns));
      column_of_.push_back(static_cast<std::int32_t>(part % grid.num_columns));
    }
    row_seen_.assign(static_cast<std::size_t>(grid.num_parts / grid.num_columns), -1);
    std::fill(seen_.data(), seen_.data() + seen_.size(), -1);
  }

  // Column by column, so that one mark per node says whether this column has it already.
  void run() {
    const Buffer<Index> order = by_column();
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i + kPrefetchDistance < order.size()) prefetch_read(graph_.indptr + order[i + kPrefetchDistance]);
      if (i + kPrefetchDistance / 2 < order.size()) {
        const auto start = static_cast<std::uint64_t>(graph_.indptr[order[i + kPrefetchDistance / 2]]);
        if (start < graph_.num_edges) prefetch_read(graph_.indices + start);
      }
      if (i + kSourcesAhead < order.size()) {
        const Row row = graph_.row(static_cast<std::int64_t>(order[i + kSourcesAhead]));
        for (std::size_t e = 0; e < std::min<std::size_t>(row.degree, kFirstEntries); ++e) {
          prefetch(row.start + static_cast<std::int64_t>(e));
        }
      }
      count_row(static_cast<std::int64_t>(order[i]));
    }
  }

 private:
  std::int32_t row_of(std::int32_t part) const { return row_of_[static_cast<std::size_t>(part)]; }
  std::int32_t column_of(std::int32_t part) const { return column_of_[static_cast<std::size_t>(part)]; }

  Buffer<Index> by_column() const {
    std::vector<std::size_t> next(static_cast<std::size_t>(grid_.num_columns) + 1, 0);
    for (std::size_t v = 0; v < graph_.num_nodes; ++v) {
      ++next[static_cast<std::size_t>(column_of(grid_.owners[v])) + 1];
    }
    for (std::size_t column = 1; column < next.size(); ++column) next[column] += next[column - 1];
    Buffer<Index> order(graph_.num_nodes);
    for (std::size_t v = 0; v < graph_.num_nodes; ++v) {
      order[next[static_cast<std::size_t>(column_of(grid_.owners[v]))]++] = static_cast<Index>(v);
    }
    return order;
  }

  void prefetch(std::int64_t edge) const {
    const auto source = static_cast<std::uint64_t>(graph_.indices[edge]);
    if (source >= graph_.num_nodes) return;
    prefetch_read(grid_.owners + source);
    prefetch_read(seen_.data() + source);
  }

  void count_row(std::int64_t node) {
    const std::int32_t owner = grid_.owners[node];
    const std::int32_t row = row_of(owner);
    const std::int32_t column = column_of(owner);
    ++counts_.copies[owner];
    const Row in_edges = graph_.row(node);
    const std::int64_t stop = in_edges.start + static_cast<std::int64_t>(in_edges.degree);
    for (std::int64_t e = in_edges.start; e < stop; ++e) {
      if (e + static_cast<std::int64_t>(kFirstEntries) < stop) prefetch(e + static_cast<std::int64_t>(kFirstEntries));
      const auto source = static_cast<std::int64_t>(graph_.indices[e]);
      if (static_cast<std::uint64_t>(source) >= graph_.num_nodes) {
        throw InputError("indices[" + std::to_string(e) + "] = " + std::to_string(source) +
                         " is not a node id: expected ids below num_nodes = " + std::to_string(graph_.num_nodes) +
                         "; run check_csc on the graph");
      }
      const std::int32_t source_owner = grid_.owners[source];
      const std::int32_t source_row = row_of(source_owner);
      const std::int64_t part = source_row * grid_.num_columns + column;
      ++counts_.edges[part];
      if (source_owner == owner) {
        if (counts_.between != nullptr) ++counts_.between[owner * grid_.num_parts + owner];
        continue;
      }
      ++counts_.cut;
      if (counts_.between != nullptr) ++counts_.between[source_owner * grid_.num_parts + owner];
      if (column_of(source_owner) != column && seen_[static_cast<std::size_t>(source)] != column) {
        seen_[static_cast<std::size_t>(source)] = column;
        ++counts_.copies[part];
      }
      if (source_row != row && row_seen_[static_cast<std::size_t>(source_row)] != node) {
        row_seen_[static_cast<std::size_t>(source_row)] = node;
        ++counts_.copies[part];
      }
    }
  }

  const CscView<Index>& graph_;
  PartGrid grid_;
  PartCounts& counts_;
  Buffer<std::int32_t> seen_;           // the last column that has a copy of each node as a source
  std::vector<std::int64_t> row_seen_;  // the last node that has a copy as a destination in each row
  std::vector<std::int32_t> row_of_;
  std::vector<std::int32_t> column_of_;
};

}  // namespace

void check_grid(const PartGrid& grid, std::size_t num_nodes) {
  if (grid.num_parts < 1 || grid.num_parts > kMostParts) {
    throw InputError("expected num_parts to be from 1 to " + std::to_string(kMostParts) + ", got " +
                     std::to_string(grid.num_parts));
  }
  if (grid.num_columns < 1 || grid.num_parts % grid.num_columns != 0) {
    throw InputError("expected num_columns to divide num_parts = " + std::to_string(grid.num_parts) + ", got " +
                     std::to_string(grid.num_columns));
  }
  for (std::size_t v = 0; v < num_nodes; ++v) {
    if (grid.owners[v] < 0 || grid.owners[v] >= grid.num_parts) {
      throw InputError("owners[" + std::to_string(v) + "] = " + std::to_string(grid.owners[v]) +
                       " is not a part: expected parts below num_parts = " + std::to_string(grid.num_parts));
    }
  }
}

template <class Index>
void count_parts(const CscView<Index>& graph, PartGrid grid, PartCounts& counts) {
  Counting<Index>(graph, grid, counts).run();
}

template void count_parts<std::int32_t>(const CscView<std::int32_t>&, PartGrid, PartCounts&);
template void count_parts<std::int64_t>(const CscView<std::int64_t>&, PartGrid, PartCounts&);

}  // namespace headrace
