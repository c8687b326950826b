// Parallel edges: those of a row that come from one source. LABOR gives each a variate of its own: the j-th parallel
// edge from t, in CSC order and from 0 on, has labor_variate(key, t, j).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"
#include "random/stream.hpp"
#include "sampling/labor_variates.hpp"

namespace headrace {

// A parallel edge, but not the first of its row from its source.
struct Repeat {
  std::int64_t position;
  std::uint32_t number;  // j, 1 or more
};

// Those of one row, positions ascending.
class Repeats {
 public:
  Repeats() = default;
  Repeats(const Repeat* first, std::size_t count) : first_(first), count_(count) {}

  const Repeat* begin() const { return first_; }
  const Repeat* end() const { return first_ + count_; }
  bool empty() const { return count_ == 0; }

  // The number of the edge at a position; 0 for all that are not here.
  std::uint32_t number(std::int64_t position) const {
    const Repeat* const found = std::lower_bound(begin(), end(), position, before);
    return found != end() && found->position == position ? found->number : 0;
  }

  static bool before(const Repeat& repeat, std::int64_t position) { return repeat.position < position; }

 private:
  const Repeat* first_ = nullptr;
  std::size_t count_ = 0;
};

// Looks through rows.
template <class Index>
class RepeatCounter {
 public:
  // Valid until the next call.
  Repeats find(const Index* indices, Row row) {
    const Index* const sources = indices + row.start;
    const auto degree = static_cast<std::size_t>(row.degree);
    found_.resize(0);
    if (ascends(sources, degree)) return {};
    begin(degree);
    for (std::size_t i = 0; i < degree; ++i) {
      const std::uint32_t number = slot_of(sources[i]).count++;
      if (number != 0) found_.push_back({row.start + static_cast<std::int64_t>(i), number});
    }
    return {found_.data(), found_.size()};
  }

 private:
  struct Slot {
    Index source;
    std::uint32_t row;  // the one that it was filled for
    std::uint32_t count;
  };

  // Most graphs have sorted rows: no table is needed for those.
  static bool ascends(const Index* sources, std::size_t degree) {
    bool ascends = true;
    for (std::size_t i = 1; i < degree; ++i) ascends &= sources[i - 1] < sources[i];
    return ascends;
  }

  // A hash table of at least twice the row's size. Slots of earlier rows count as free, so nothing is cleared.
  void begin(std::size_t degree) {
    bits_ = 3;
    while (std::size_t{1} << bits_ < 2 * degree) ++bits_;
    if (++row_ == 0 || std::size_t{1} << bits_ > slots_.size()) {
      slots_.resize(std::max(std::size_t{1} << bits_, slots_.size()));
      std::fill(slots_.data(), slots_.data() + slots_.size(), Slot{0, 0, 0});
      row_ = 1;
    }
  }

  Slot& slot_of(Index source) {
    const std::size_t mask = (std::size_t{1} << bits_) - 1;
    auto at = static_cast<std::size_t>(static_cast<std::uint64_t>(source) * 0x9E3779B97F4A7C15U >> (64 - bits_));
    for (;; at = (at + 1) & mask) {
      Slot& slot = slots_[at];
      if (slot.row != row_) return slot = {source, row_, 0};
      if (slot.source == source) return slot;
    }
  }

  unsigned bits_ = 0;
  std::uint32_t row_ = 0;
  Buffer<Slot> slots_;
  Buffer<Repeat> found_;
};

// The repeats of a whole graph: 16 bytes for each, and a bit for each row where there are any.
class ParallelEdges {
 public:
  ParallelEdges(Buffer<std::uint64_t> rows, Buffer<Repeat> repeats)
      : rows_(std::move(rows)), repeats_(std::move(repeats)) {}

  bool any() const { return repeats_.size() != 0; }

  Repeats of(std::int64_t vertex, Row row) const {
    const auto v = static_cast<std::size_t>(vertex);
    if ((rows_[v / 64] >> (v % 64) & 1) == 0) return {};
    const Repeat* const end = repeats_.data() + repeats_.size();
    const Repeat* const first = std::lower_bound(repeats_.data(), end, row.start, Repeats::before);
    const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
    return {first, static_cast<std::size_t>(std::lower_bound(first, end, stop, Repeats::before) - first)};
  }

  std::size_t num_bytes() const { return rows_.size() * sizeof(std::uint64_t) + repeats_.size() * sizeof(Repeat); }

 private:
  Buffer<std::uint64_t> rows_;
  Buffer<Repeat> repeats_;
};

// The repeats of row after row: by what is known of the graph, or else by looking through the row.
template <class Index>
class RowRepeats {
 public:
  // `may_repeat`: whether any row may hold a source twice. `known` may be null.
  RowRepeats(const Index* indices, bool may_repeat, const ParallelEdges* known)
      : indices_(indices), may_repeat_(may_repeat), known_(known) {}

  // Valid until the next call.
  Repeats of(std::int64_t vertex, Row row) {
    if (!may_repeat_) return {};
    return known_ != nullptr ? known_->of(vertex, row) : counter_.find(indices_, row);
  }

 private:
  const Index* indices_;
  bool may_repeat_;
  const ParallelEdges* known_;
  RepeatCounter<Index> counter_;
};

// The variate of the edge at a position.
template <class Index>
std::uint64_t edge_variate(std::uint64_t key, const Index* indices, std::int64_t position, std::uint32_t number) {
  return labor_variate(key, static_cast<std::uint64_t>(indices[position]), number);
}

// Those of all edges of a row.
template <class Index>
void edge_variates(std::uint64_t key, const Index* indices, Row row, Repeats repeats, std::uint64_t* out) {
  labor_variates(key, indices + row.start, static_cast<std::size_t>(row.degree), out);
  for (const Repeat& repeat : repeats) {
    out[repeat.position - row.start] = edge_variate(key, indices, repeat.position, repeat.number);
  }
}

// Whether any row of a graph holds a source twice.
template <class Index>
bool has_parallel_edges(const CscView<Index>& graph, int num_threads);

template <class Index>
ParallelEdges find_parallel_edges(const CscView<Index>& graph, int num_threads);

}  // namespace headrace
