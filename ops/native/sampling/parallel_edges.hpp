// Parallel edges: those of a row that come from one source. LABOR gives each a variate of its own: the j-th parallel
// edge from t, in CSC order and from 0 on, has labor_variate(keys, t, j).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"
#include "graphs/graph.hpp"
#include "random/labor_variates.hpp"
#include "random/variate_keys.hpp"
#include "sampling/hop.hpp"
#include "sampling/picker.hpp"

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
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  // The number of the edge at a position; 0 for all that are not here.
  std::uint32_t number(std::int64_t position) const {
    const auto before = [](const Repeat& repeat, std::int64_t one) { return repeat.position < one; };
    const Repeat* const found = std::lower_bound(begin(), end(), position, before);
    return found != end() && found->position == position ? found->number : 0;
  }

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

// The repeats of a whole graph: 16 bytes for each, and 8 for each node where there are any.
class ParallelEdges {
 public:
  // Those of node v are starts[v] to starts[v + 1]. Without repeats no starts are needed.
  ParallelEdges(Buffer<std::size_t> starts, Buffer<Repeat> repeats)
      : starts_(std::move(starts)), repeats_(std::move(repeats)) {}

  bool any() const { return repeats_.size() != 0; }

  // Of a node of a graph that has any.
  Repeats of(std::int64_t node) const {
    const std::size_t* const start = starts_.data() + node;
    return {repeats_.data() + start[0], start[1] - start[0]};
  }

  // The beginning of of(node).
  const void* start_of(std::int64_t node) const { return starts_.data() + node; }

  std::size_t num_bytes() const { return starts_.size() * sizeof(std::size_t) + repeats_.size() * sizeof(Repeat); }

 private:
  Buffer<std::size_t> starts_;
  Buffer<Repeat> repeats_;
};

// The repeats of row after row: by what is known of the graph, or else by looking through the row.
template <class Index>
class RowRepeats {
 public:
  explicit RowRepeats(const HopGraph<Index>& graph)
      : csc_(graph.csc), may_repeat_(graph.parallel_edges), known_(graph.known_parallel_edges) {}

  // Valid until the next call.
  Repeats of(std::int64_t node, Row row) {
    if (!may_repeat_) return {};
    const std::int64_t place = known_ == nullptr ? -1 : csc_.place(node);
    if (place >= 0) {
      const Repeats repeats = known_->of(place);
      if (repeats.empty()) return {};
      // Those of a row that lower bounds cut are counted from where it begins now.
      if (row.start == csc_.indptr[place] && is_in(row, *repeats.begin(), *(repeats.end() - 1))) return repeats;
    }
    return counter_.find(csc_.indices, row);
  }

  // A node that will be prefetched.
  void prefetch_early(std::int64_t node) const {
    if (may_repeat_ && known_ != nullptr && csc_.ranks.all()) prefetch_far(known_->start_of(node));
  }

  // A node that will be asked for.
  void prefetch(std::int64_t node) const {
    if (!may_repeat_ || known_ == nullptr) return;
    const std::int64_t place = csc_.place(node);
    if (place < 0) return;
    const Repeats repeats = known_->of(place);
    if (!repeats.empty()) prefetch_array(repeats.begin(), std::min(repeats.size(), kRepeatsAhead));
  }

 private:
  // Where indptr was changed since they were found they may be outside, and those who ask write to places in the row.
  static bool is_in(Row row, const Repeat& first, const Repeat& last) {
    return first.position >= row.start && last.position - row.start < static_cast<std::int64_t>(row.degree);
  }

  static constexpr std::size_t kRepeatsAhead = kLinesAhead * kCacheLineBytes / sizeof(Repeat);

  CscView<Index> csc_;
  bool may_repeat_;             // whether any row may hold a source twice
  const ParallelEdges* known_;  // or null
  RepeatCounter<Index> counter_;
};

// The variate of the edge at a position.
template <class Index>
std::uint64_t edge_variate(const VariateKeys& keys, const Index* indices, std::int64_t position, std::uint32_t number) {
  return labor_variate(keys, static_cast<std::uint64_t>(indices[position]), number);
}

// Those of the repeats of row after row.
template <class Index>
class RepeatVariates {
 public:
  RepeatVariates(const VariateKeys& keys, const Index* indices) : keys_(keys), indices_(indices) {}

  // In the order of the repeats. Valid until the next call.
  const std::uint64_t* of(Repeats repeats) {
    const std::size_t room = (repeats.size() + kVariatesAtOnce - 1) / kVariatesAtOnce * kVariatesAtOnce;
    sources_.resize(room);
    numbers_.resize(room);
    variates_.resize(room);
    std::size_t i = 0;
    for (const Repeat& repeat : repeats) {
      sources_[i] = indices_[repeat.position];
      numbers_[i++] = repeat.number;
    }
    // Nobody asks for these, but a full chunk takes less time than a part of one.
    for (; i < room; ++i) {
      sources_[i] = 0;
      numbers_[i] = 0;
    }
    labor_variates(keys_, sources_.data(), numbers_.data(), room, variates_.data());
    return variates_.data();
  }

 private:
  VariateKeys keys_;
  const Index* indices_;
  Buffer<Index> sources_;
  Buffer<std::uint32_t> numbers_;
  Buffer<std::uint64_t> variates_;
};

// The variates of all edges of row after row.
template <class Index>
class EdgeVariates {
 public:
  EdgeVariates(const VariateKeys& keys, const Index* indices)
      : keys_(keys), indices_(indices), of_repeats_(keys, indices) {}

  // To `out`, with room for all of them.
  void of(Row row, Repeats repeats, std::uint64_t* out) {
    labor_variates(keys_, indices_ + row.start, static_cast<std::size_t>(row.degree), out);
    if (repeats.empty()) return;
    const std::uint64_t* variate = of_repeats_.of(repeats);
    for (const Repeat& repeat : repeats) out[repeat.position - row.start] = *variate++;
  }

 private:
  VariateKeys keys_;
  const Index* indices_;
  RepeatVariates<Index> of_repeats_;
};

// Whether any row of a graph holds a source twice.
template <class Index>
bool has_parallel_edges(const CscView<Index>& graph, int num_threads);

template <class Index>
ParallelEdges find_parallel_edges(const CscView<Index>& graph, int num_threads);

}  // namespace headrace
