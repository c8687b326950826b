#include "sampling/excluded.hpp"

#include <string>

#include "core/errors.hpp"

namespace headrace {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw InputError("excluded edges: expected " + what + "; pass what find_edges returned for this graph");
}

void check_starts(const ExcludedRows& excluded) {
  bool ascend = excluded.starts[0] == 0;
  for (std::size_t i = 0; i < excluded.num_rows; ++i) ascend &= excluded.starts[i] <= excluded.starts[i + 1];
  if (!ascend || static_cast<std::size_t>(excluded.starts[excluded.num_rows]) != excluded.num_positions) {
    refuse("starts that ascend from 0 to the number of positions, " + std::to_string(excluded.num_positions));
  }
}

}  // namespace

template <class Index>
ExcludedEdges<Index>::ExcludedEdges(const CscView<Index>& csc, const ExcludedRows& excluded, bool in_trees)
    : csc_(csc), excluded_(excluded), numbers_(excluded.num_rows) {
  if (excluded.slots != nullptr && !in_trees) {
    throw InputError("excluded edges: expected trees to leave out edges by tree, got seeds that share neighbourhoods");
  }
  check_starts(excluded);
  number_rows();
  for (std::size_t i = 0; i < excluded.num_rows; ++i) {
    const std::int64_t node = excluded.rows[i];
    const Row row = csc.row(node);
    const Gaps gaps = of_row(static_cast<std::int64_t>(i));
    std::int64_t least = row.start;
    for (std::size_t j = 0; j < gaps.count; ++j) {
      if (gaps.positions[j] < least) refuse("positions that ascend in row " + std::to_string(node));
      least = gaps.positions[j] + 1;
    }
    if (least > row.start + static_cast<std::int64_t>(row.degree)) {
      refuse("positions in row " + std::to_string(node) + ", got " + std::to_string(least - 1));
    }
  }
}

template <class Index>
void ExcludedEdges<Index>::number_rows() {
  const bool by_slot = excluded_.slots != nullptr;
  ends_.resize(by_slot ? excluded_.num_rows : 0);
  std::size_t first = 0;
  for (std::size_t i = 0; i < excluded_.num_rows; ++i) {
    const std::int64_t node = excluded_.rows[i];
    if (node < 0 || static_cast<std::uint64_t>(node) >= csc_.num_nodes) {
      refuse("rows of the graph, got row " + std::to_string(node));
    }
    if (!by_slot || i == 0 || node != excluded_.rows[i - 1]) {
      first = i;
      const auto number = static_cast<std::int64_t>(i);
      if (numbers_.insert(node, number) != number) refuse("each row once, got row " + std::to_string(node) + " twice");
    } else if (excluded_.slots[i] <= excluded_.slots[i - 1]) {
      refuse("slots that ascend in row " + std::to_string(node));
    }
    if (by_slot) ends_[first] = static_cast<std::int64_t>(i + 1);
  }
}

template <class Index>
HopGraph<Index> ExcludedEdges<Index>::packed_graph(const HopGraph<Index>& graph) {
  if (packed_starts_.size() == 0) {
    packed_starts_.resize(excluded_.num_rows + 1);
    packed_starts_[0] = 0;
    for (std::size_t i = 0; i < excluded_.num_rows; ++i) {
      const Row row = csc_.row(excluded_.rows[i]);
      const auto left = static_cast<std::int64_t>(row.degree) - (excluded_.starts[i + 1] - excluded_.starts[i]);
      packed_starts_[i + 1] = packed_starts_[i] + left;
    }
  }
  HopGraph<Index> packed;
  packed.parallel_edges = graph.parallel_edges;
  copy_left(csc_.indices, sources_);
  packed.csc = {nullptr, csc_.num_nodes, sources_.data(), sources_.size()};
  if (graph.weights.narrow != nullptr) {
    copy_left(graph.weights.narrow, narrow_);
    packed.weights.narrow = narrow_.data();
  } else if (graph.weights.wide != nullptr) {
    copy_left(graph.weights.wide, wide_);
    packed.weights.wide = wide_.data();
  }
  return packed;
}

// What is left of an array with an entry for each edge, unless it is there from the hop before.
template <class Index>
template <class T>
void ExcludedEdges<Index>::copy_left(const T* all, Buffer<T>& left) const {
  if (left.size() != 0) return;
  left.resize(static_cast<std::size_t>(packed_starts_[excluded_.num_rows]));
  T* out = left.data();
  for (std::size_t i = 0; i < excluded_.num_rows; ++i) {
    of_row(static_cast<std::int64_t>(i)).visit_runs(csc_.row(excluded_.rows[i]), [&](Row run) {
      out = std::copy_n(all + run.start, run.degree, out);
    });
  }
}

template class ExcludedEdges<std::int32_t>;
template class ExcludedEdges<std::int64_t>;

}  // namespace headrace
