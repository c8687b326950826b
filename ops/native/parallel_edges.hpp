// Parallel edges: those of a row that come from one source. LABOR gives each a variate of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "graph.hpp"
#include "labor_variates.hpp"
#include "stream.hpp"

namespace headrace {

// Numbers the parallel edges of a row.
template <class Index>
class Occurrences {
 public:
  // Count, for each of a row's sources, how often the row holds it before: number(i). Returns false if no source is
  // there twice; number(i) may then not be asked for.
  bool count(const Index* sources, std::size_t degree) {
    return has_repeats(sources, degree) && count_all(sources, degree);
  }

  std::uint32_t number(std::size_t i) const { return numbers_[i]; }

  bool has_repeats(const Index* sources, std::size_t degree) {
    if (ascends(sources, degree)) return false;
    begin(degree);
    for (std::size_t i = 0; i < degree; ++i) {
      if (find(sources[i]).count++ != 0) return true;
    }
    return false;
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

  bool count_all(const Index* sources, std::size_t degree) {
    begin(degree);
    numbers_.resize(degree);
    for (std::size_t i = 0; i < degree; ++i) numbers_[i] = find(sources[i]).count++;
    return true;
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

  Slot& find(Index source) {
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
  Buffer<std::uint32_t> numbers_;
};

// The variates of the edges of a row: the j-th parallel edge from t, in CSC order and from 0 on, has
// labor_variate(key, t, j).
template <class Index>
class EdgeVariates {
 public:
  // `may_repeat`: whether rows may hold a source twice; otherwise none is looked through.
  EdgeVariates(const Index* indices, std::uint64_t key, bool may_repeat)
      : indices_(indices), key_(key), may_repeat_(may_repeat) {}

  // Begin a row. Returns whether it has parallel edges.
  bool begin(Row row) {
    sources_ = indices_ + row.start;
    degree_ = static_cast<std::size_t>(row.degree);
    return has_repeats_ = may_repeat_ && occurrences_.count(sources_, degree_);
  }

  std::uint64_t operator[](std::size_t i) const {
    return labor_variate(key_, static_cast<std::uint64_t>(sources_[i]), has_repeats_ ? occurrences_.number(i) : 0);
  }

  // Those of all edges of the row.
  void write(std::uint64_t* out) const {
    labor_variates(key_, sources_, degree_, out);
    if (!has_repeats_) return;
    for (std::size_t i = 0; i < degree_; ++i) {
      if (occurrences_.number(i) != 0) out[i] = (*this)[i];
    }
  }

 private:
  const Index* indices_;
  std::uint64_t key_;
  bool may_repeat_;
  bool has_repeats_ = false;
  const Index* sources_ = nullptr;
  std::size_t degree_ = 0;
  Occurrences<Index> occurrences_;
};

// Whether any row of a graph holds a source twice.
template <class Index>
bool has_parallel_edges(const CscView<Index>& graph, int num_threads);

}  // namespace headrace
