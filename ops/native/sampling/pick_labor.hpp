// LABOR-0, layer-neighbour sampling (arXiv 2210.13339): one variate r_t per *source* node, shared by all destinations
// of the hop, so that destinations prefer the same neighbours and a batch touches fewer nodes. Of the edges from t
// to one destination each has a variate of its own (parallel_edges.hpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"
#include "core/select_smallest.hpp"
#include "core/wide.hpp"
#include "graphs/graph.hpp"
#include "sampling/blended_scan.hpp"
#include "sampling/labor_scan.hpp"
#include "sampling/parallel_edges.hpp"
#include "sampling/pick_uniform.hpp"
#include "sampling/picker.hpp"

namespace headrace {

// A row's small variates, as labor_scan.hpp finds them.
template <class Index>
class RowScan {
 public:
  RowScan(const Index* indices, const VariateKeys& keys)
      : indices_(indices), keys_(keys), blended_scan_(keys), of_repeats_(keys, indices) {}

  // Rows from 2^32 edges on have offsets of more than 32 bits.
  static bool fits(Row row) { return row.degree <= std::numeric_limits<std::uint32_t>::max(); }

  std::size_t at_most(Row row, std::uint32_t bound, Repeats repeats) {
    const std::size_t room = static_cast<std::size_t>(row.degree) + kScanSlack;
    high_.resize(room);
    offsets_.resize(room);
    kept_.resize(room);
    const Index* const sources = indices_ + row.start;
    const auto degree = static_cast<std::size_t>(row.degree);
    if (keys_.blends) {
      if (ahead_.count != 0) prefetch_array(ahead_.ids, ahead_.count);
      count_ = blended_scan_(sources, degree, bound, high_.data(), offsets_.data());
    } else {
      count_ = scan_variates(sources, degree, keys_.key, bound, high_.data(), offsets_.data(), ahead_);
    }
    ahead_ = {};
    repeats_ = repeats;
    if (!repeats.empty()) replace_repeats(row, bound);
    return count_;
  }

  // The next scan asks for the memory of this row as it goes.
  void prefetch(Row row) {
    // There was no scan that could ask for the row before.
    if (ahead_.count != 0) prefetch_array(ahead_.ids, ahead_.count);
    ahead_ = {indices_ + row.start, static_cast<std::size_t>(std::min(row.degree, kLinesAhead * kPerLine))};
  }

  std::size_t count() const { return count_; }
  std::uint32_t high(std::size_t i) const { return high_[i]; }
  std::uint32_t offset(std::size_t i) const { return offsets_[i]; }
  std::uint64_t variate(Row row, std::size_t i) const {
    const std::int64_t position = row.start + static_cast<std::int64_t>(offsets_[i]);
    return edge_variate(keys_, indices_, position, repeats_.number(position));
  }

  // The offsets of the `wanted` smallest, or more where high words are equal.
  std::size_t keep(std::size_t wanted) {
    return keep_smallest(high_.data(), offsets_.data(), count_, wanted, kept_.data());
  }
  std::uint32_t kept(std::size_t i) const { return kept_[i]; }

 private:
  static constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(Index);

  // The scan has found parallel edges by the variate of their source: decide them by their own.
  void replace_repeats(Row row, std::uint32_t bound) {
    merged_high_.resize(high_.size());
    merged_offsets_.resize(offsets_.size());
    std::size_t count = 0;
    const auto put = [&](std::uint32_t high, std::uint32_t offset) {
      merged_high_[count] = high;
      merged_offsets_[count++] = offset;
    };
    std::size_t i = 0;
    const std::uint64_t* variate = of_repeats_.of(repeats_);
    for (const Repeat& repeat : repeats_) {
      const auto offset = static_cast<std::uint32_t>(repeat.position - row.start);
      for (; i < count_ && offsets_[i] < offset; ++i) put(high_[i], offsets_[i]);
      if (i < count_ && offsets_[i] == offset) ++i;
      const std::uint32_t high = high_word(*variate++);
      if (high <= bound) put(high, offset);
    }
    for (; i < count_; ++i) put(high_[i], offsets_[i]);
    std::swap(high_, merged_high_);
    std::swap(offsets_, merged_offsets_);
    count_ = count;
  }

  const Index* indices_;
  VariateKeys keys_;
  BlendedScan<Index> blended_scan_;
  RepeatVariates<Index> of_repeats_;
  Repeats repeats_;
  IdsAhead<Index> ahead_;
  std::size_t count_ = 0;
  Buffer<std::uint32_t> high_;
  Buffer<std::uint32_t> offsets_;
  Buffer<std::uint32_t> merged_high_;
  Buffer<std::uint32_t> merged_offsets_;
  Buffer<std::uint32_t> kept_;
};

// Exactly min(fanout, degree) picks: the smallest r_t, ties by position. Ascending positions.
template <class Index>
class LaborExactPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kReturnsWeights = false;

  LaborExactPicker(const Index* indices, const VariateKeys& keys, std::uint64_t fanout, RowRepeats<Index> repeats)
      : indices_(indices),
        fanout_(fanout),
        variates_(keys, indices),
        scan_(indices, keys),
        repeats_(std::move(repeats)) {
    // Enough candidates that fewer than `fanout` of them turn up in about one row of a hundred.
    candidates_ = fanout + 2 * static_cast<std::uint64_t>(std::sqrt(static_cast<double>(fanout))) + 2;
  }

  const void* beginning(Row row) const { return indices_ + row.start; }
  void prefetch_early(std::int64_t node) const { repeats_.prefetch_early(node); }
  void prefetch(std::int64_t node, Row row) {
    scan_.prefetch(row);
    repeats_.prefetch(node);
  }

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    if (fanout_ == 0) return 0;
    const Repeats repeats = repeats_.of(node, row);
    if (!scan_.fits(row)) return pick_from_all(row, repeats, positions);
    const auto wanted = static_cast<std::size_t>(fanout_);
    std::uint64_t candidates = candidates_;
    while (scan_.at_most(row, bound(candidates, row.degree), repeats) < wanted) candidates *= 2;
    if (scan_.keep(wanted) != wanted) return pick_from_candidates(row, positions);
    for (std::size_t i = 0; i < wanted; ++i) positions[i] = row.start + static_cast<std::int64_t>(scan_.kept(i));
    return wanted;
  }

 private:
  // The high word up to which about `candidates` of `degree` variates fall.
  static std::uint32_t bound(std::uint64_t candidates, std::uint64_t degree) {
    if (candidates >= degree) return std::numeric_limits<std::uint32_t>::max();
    return static_cast<std::uint32_t>((candidates << 32) / degree);
  }

  // Equal high words where the last pick falls: the low words decide, and behind them the positions.
  std::size_t pick_from_candidates(Row row, std::int64_t* positions) {
    std::uint64_t* const keys = selector_.keys(scan_.count());
    for (std::size_t i = 0; i < scan_.count(); ++i) keys[i] = scan_.variate(row, i);
    std::size_t picked = 0;
    selector_.select(static_cast<std::size_t>(fanout_), [&](std::size_t i) {
      positions[picked++] = row.start + static_cast<std::int64_t>(scan_.offset(i));
    });
    return picked;
  }

  std::size_t pick_from_all(Row row, Repeats repeats, std::int64_t* positions) {
    variates_.of(row, repeats, selector_.keys(static_cast<std::size_t>(row.degree)));
    std::size_t picked = 0;
    selector_.select(static_cast<std::size_t>(fanout_),
                     [&](std::size_t i) { positions[picked++] = row.start + static_cast<std::int64_t>(i); });
    return picked;
  }

  const Index* indices_;
  std::uint64_t fanout_;
  std::uint64_t candidates_;
  EdgeVariates<Index> variates_;
  RowScan<Index> scan_;
  RowRepeats<Index> repeats_;
  SmallestSelector selector_;
};

// Each edge on its own with probability min(1, fanout / degree): kept iff floor(r_t * degree / 2^64) < fanout.
template <class Index>
class LaborPoissonPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kReturnsWeights = false;

  LaborPoissonPicker(const Index* indices, const VariateKeys& keys, std::uint64_t fanout, RowRepeats<Index> repeats)
      : indices_(indices), keys_(keys), fanout_(fanout), scan_(indices, keys), repeats_(std::move(repeats)) {}

  const void* beginning(Row row) const { return indices_ + row.start; }
  void prefetch_early(std::int64_t node) const { repeats_.prefetch_early(node); }
  void prefetch(std::int64_t node, Row row) {
    scan_.prefetch(row);
    repeats_.prefetch(node);
  }

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    if (fanout_ == 0) return 0;
    // floor(r * degree / 2^64) < fanout, with one division per row in place of one product per edge
    const auto largest = static_cast<std::uint64_t>(((static_cast<uint128>(fanout_) << 64) - 1) / row.degree);
    const Repeats repeats = repeats_.of(node, row);
    if (!scan_.fits(row)) return pick_from_all(row, repeats, largest, positions);
    const std::uint32_t largest_high = high_word(largest);
    const std::size_t count = scan_.at_most(row, largest_high, repeats);
    std::size_t picked = 0;
    for (std::size_t i = 0; i < count; ++i) {
      positions[picked] = row.start + static_cast<std::int64_t>(scan_.offset(i));
      picked += scan_.high(i) < largest_high || scan_.variate(row, i) <= largest ? 1 : 0;
    }
    return picked;
  }

 private:
  std::size_t pick_from_all(Row row, Repeats repeats, std::uint64_t largest, std::int64_t* positions) const {
    std::size_t picked = 0;
    for (std::size_t i = 0; i < row.degree; ++i) {
      const std::int64_t position = row.start + static_cast<std::int64_t>(i);
      positions[picked] = position;
      picked += edge_variate(keys_, indices_, position, repeats.number(position)) <= largest ? 1 : 0;
    }
    return picked;
  }

  const Index* indices_;
  VariateKeys keys_;
  std::uint64_t fanout_;
  RowScan<Index> scan_;
  RowRepeats<Index> repeats_;
};

}  // namespace headrace
