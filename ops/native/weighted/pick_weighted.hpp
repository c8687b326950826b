// Picks of in-edges by weight. An edge of weight 0 is never picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"
#include "core/select_smallest.hpp"
#include "graphs/graph.hpp"
#include "random/distinct_draws.hpp"
#include "random/stream_variates.hpp"
#include "sampling/picked_set.hpp"
#include "sampling/picker.hpp"
#include "weighted/edge_draws.hpp"
#include "weighted/race.hpp"
#include "weighted/rows_of_a_kind.hpp"
#include "weighted/running_shares.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/weighted_loops.hpp"
#include "weighted/weights.hpp"

namespace headrace {

// Write the positions of the row's edges of positive weight; returns how many there are.
inline std::size_t take_positive(Row row, EdgeWeights weights, std::int64_t* positions) {
  if (weights.all_positive) return take_all(row, positions);
  std::size_t count = 0;
  for (std::uint64_t i = 0; i < row.degree; ++i) {
    const std::int64_t position = row.start + static_cast<std::int64_t>(i);
    if (weights[position] > 0.0) positions[count++] = position;
  }
  return count;
}

// Without replacement: draws by weight, one after the other, of which those that hit an edge already picked do not
// count. Where the draws of a row would be too many, all of it is looked at: what is still wanted comes from an
// exponential race of the edges not picked (Efraimidis and Spirakis, "Weighted random sampling with a reservoir",
// 2006), in which edge i of the row runs for -ln(u_i) / weight. The race has the law of the draws that it stands for,
// so where it sets in changes nothing about the law of the picks.
class WeightedPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPrepare;
  static constexpr bool kReturnsWeights = false;

  WeightedPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights),
        fanout_(fanout),
        has_vectors_(draws_in_vectors()),
        in_vectors_(has_vectors_ && fanout <= kMostDistinctDraws),
        draws_(weights, key) {
    if (!picks_by_kind()) return;
    for (std::size_t degree = 0; degree <= kMostSharedDegree; ++degree) kinds_[degree] = find_kind(degree);
  }

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  void announce(Row row) const {
    if (row.degree > fanout_ && most_draws(row.degree) != 0) {
      draws_.announce(row);
    } else if (row.degree > fanout_ || (row.degree != 0 && !weights_.all_positive)) {
      prefetch_read(weights_.address(row.start));
      prefetch_read(weights_.address(row.start + static_cast<std::int64_t>(row.degree) - 1));
    }
  }

  void prepare(std::int64_t vertex, Row row) {
    if (row.degree <= fanout_ || fanout_ == 0) return;
    if (most_draws(row.degree) != 0) {
      draws_.prepare(vertex, row, likely_draws(row.degree, static_cast<std::size_t>(fanout_) + 2));
    } else {
      draws_.prepare_variates(vertex);
    }
  }

  // Whether pick_by_kind may be called: in vectors, and where it is known how many edges each row gives.
  bool picks_by_kind() const {
    return in_vectors_ && fanout_ != 0 && weights_.all_positive && weights_.shares != nullptr;
  }

  // Pick from the rows of a stretch, but from those that it adds to `left`.
  void pick_by_kind(const Destination* destinations, std::size_t num_rows, const std::int64_t* begins,
                    std::int64_t* positions, RowNumbers& left) const {
    const Stretch stretch{destinations, begins, positions, static_cast<std::size_t>(fanout_)};
    RowNumbers rows[kNumKinds];
    for (std::size_t i = 0; i < num_rows; ++i) rows[kind_of(destinations[i].row.degree)].add(i);
    if (weights_.narrow != nullptr) {
      announce_rows(stretch, rows[kRace], weights_.narrow);
    } else {
      announce_rows(stretch, rows[kRace], weights_.wide);
    }
    for (const Kind kind : {kInVector, kInTwo, kInMany}) announce_rows(stretch, rows[kind], weights_.shares);
    left = rows[kLeft];
    for (std::size_t i = 0; i < left.count; ++i) draws_.announce_sums(destinations[left.numbers[i]].row);
    const StreamKeys& keys = draws_.keys();
    take_rows(stretch, rows[kWhole]);
    race_rows(stretch, rows[kRace], keys, weights_, left);
    draw_rows(stretch, rows[kInVector], keys, weights_.shares, SharesIn::kVector, left);
    draw_rows(stretch, rows[kInTwo], keys, weights_.shares, SharesIn::kTwo, left);
    draw_rows(stretch, rows[kInMany], keys, weights_.shares, SharesIn::kMany, left);
  }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_positive(row, weights_, positions);
    if (fanout_ == 0) return 0;
    draws_.turn();
    const std::uint64_t num_draws = most_draws(row.degree);
    if (row.degree + num_draws > std::uint64_t{1} << 32) {
      throw GraphError("node " + std::to_string(vertex) + " has " + std::to_string(row.degree) +
                       " in-edges, too many for the words of its stream");
    }
    const auto wanted = static_cast<std::size_t>(fanout_);
    const auto degree = static_cast<std::size_t>(row.degree);
    std::size_t picked = 0;
    if (num_draws != 0) {
      if (!draws_.begin(vertex, row)) return 0;
      if (!in_vectors_) picked_set_.begin(positions, wanted);
      for (std::uint64_t first = 0; first < num_draws;) {
        const std::size_t likely = likely_draws(row.degree, first == 0 ? wanted + 2 : wanted - picked);
        const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(num_draws - first, EdgeDraws::kMost));
        first += draws_.draw(first, likely, most, [&](const auto* offsets, std::size_t count) {
          picked = take(offsets, count, picked, row, positions);
        });
        if (picked == wanted) return picked;
      }
    }
    if (num_draws == 0 && degree <= kMostRacers) {
      static_assert(kMostRacers <= kPickSlack && kMostRacers <= EdgeDraws::kMost, "room for all, variates of all");
      picked = race_short(row, positions);
      if (picked != kUndecided) return picked;
      picked = 0;
    }
    return race(vertex, row, num_draws, picked, positions);
  }

 private:
  enum Kind : std::uint8_t { kWhole, kRace, kInVector, kInTwo, kInMany, kLeft };
  static constexpr std::size_t kNumKinds = 6;

  // See rows_of_a_kind.hpp.
  Kind find_kind(std::uint64_t degree) const {
    if (degree <= fanout_) return kWhole;
    if (most_draws(degree) == 0) return degree <= kMostRacers ? kRace : kLeft;
    if (degree <= 2 * kSharesInVector) return degree <= kSharesInVector ? kInVector : kInTwo;
    // Where there is no room for two draws more than are wanted, too many rows would be left in the end.
    return fanout_ + 2 <= kMostDistinctDraws ? kInMany : kLeft;
  }

  Kind kind_of(std::uint64_t degree) const { return degree <= kMostSharedDegree ? kinds_[degree] : kLeft; }

  // Draws without success are few unless much of the row is wanted.
  std::uint64_t most_draws(std::uint64_t degree) const {
    return 2 * (degree - fanout_) < fanout_ ? 0 : draws_before_race(fanout_);
  }

  // Draws to find at once where `wanted` edges are wanted. In vectors as many as there may be cost no more than a few,
  // if the row is short. Elsewhere each costs: no more are made than are wanted.
  std::size_t likely_draws(std::uint64_t degree, std::size_t wanted) const {
    if (has_vectors_ && degree <= kWholeRow) return kMostSharedDraws;
    return std::min(wanted, kMostSharedDraws);
  }

  // Behind the `picked` positions write those of drawn edges that are new, until there are enough.
  template <class Offset>
  std::size_t take(const Offset* offsets, std::size_t count, std::size_t picked, Row row, std::int64_t* positions) {
    const auto wanted = static_cast<std::size_t>(fanout_);
    static_assert(kMostDistinctDraws <= kPickSlack, "room behind what is picked");
    if (in_vectors_) return take_distinct(offsets, count, picked, wanted, row.start, positions);
    for (std::size_t i = 0; i < count && picked < wanted; ++i) {
      const std::int64_t position = row.start + static_cast<std::int64_t>(offsets[i]);
      if (picked_set_.insert(picked, position)) positions[picked++] = position;
    }
    return picked;
  }

  // The race of a row of at most kMostRacers edges before anything is drawn.
  std::size_t race_short(Row row, std::int64_t* positions) const {
    const auto degree = static_cast<std::size_t>(row.degree);
    const auto wanted = static_cast<std::size_t>(fanout_);
    const std::uint64_t* const variates = draws_.variates();
    if (weights_.narrow != nullptr) {
      return race_at_once(weights_.narrow + row.start, variates, row.start, degree, wanted, positions);
    }
    return race_at_once(weights_.wide + row.start, variates, row.start, degree, wanted, positions);
  }

  // Behind the `picked` positions write those of the edges that win the race, in ascending order.
  std::size_t race(std::int64_t vertex, Row row, std::uint64_t num_draws, std::size_t picked, std::int64_t* positions) {
    const auto degree = static_cast<std::size_t>(row.degree);
    const std::size_t wanted = static_cast<std::size_t>(fanout_) - picked;
    times_.resize(degree + std::max(kVariatesSlack, kTimesSlack));
    kept_.resize(degree + 1);
    if (num_draws == 0 && degree <= EdgeDraws::kMost) {
      std::copy(draws_.variates(), draws_.variates() + EdgeDraws::kMost, times_.data());
    } else {
      stream_variates(draws_.keys(), static_cast<std::uint64_t>(vertex), block_of_variate(num_draws), degree,
                      times_.data());
    }
    if (weights_.narrow != nullptr) {
      arrivals(weights_.narrow + row.start, degree, times_.data());
    } else {
      arrivals(weights_.wide + row.start, degree, times_.data());
    }
    for (std::size_t i = 0; i < picked; ++i) times_[static_cast<std::size_t>(positions[i] - row.start)] = kNever;
    std::size_t num_kept = keep_earliest(times_.data(), degree, wanted, kept_.data());
    if (num_kept != wanted) num_kept = break_ties(degree, wanted);
    for (std::size_t i = 0; i < num_kept; ++i) {
      positions[picked] = row.start + static_cast<std::int64_t>(kept_[i]);
      picked += times_[kept_[i]] != kNever ? 1 : 0;
    }
    return picked;
  }

  // Of edges that arrive at the same time the first ones win.
  std::size_t break_ties(std::size_t degree, std::size_t wanted) {
    std::copy(times_.data(), times_.data() + degree, selector_.keys(degree));
    std::size_t num_kept = 0;
    selector_.select(wanted, [&](std::size_t i) { kept_[num_kept++] = static_cast<std::uint32_t>(i); });
    return num_kept;
  }

  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  EdgeWeights weights_;
  std::uint64_t fanout_;
  bool has_vectors_;
  bool in_vectors_;
  EdgeDraws draws_;
  Kind kinds_[kMostSharedDegree + 1]{};  // of rows that are not longer, if it picks by kind
  PickedSet picked_set_;
  Buffer<std::uint64_t> times_;
  Buffer<std::uint32_t> kept_;
  SmallestSelector selector_;
};

// With replacement: `fanout` draws; see EdgeDraws.
class WeightedReplacementPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPrepare;
  static constexpr bool kReturnsWeights = false;

  WeightedReplacementPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : fanout_(fanout), draws_(weights, key) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  void announce(Row row) const { draws_.announce(row); }

  void prepare(std::int64_t vertex, Row row) {
    if (row.degree != 0 && fanout_ != 0) draws_.prepare(vertex, row, likely_draws());
  }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree == 0 || fanout_ == 0) return 0;
    draws_.turn();
    if (!draws_.begin(vertex, row)) return 0;
    const auto count = static_cast<std::size_t>(fanout_);
    for (std::size_t first = 0; first < count;) {
      const std::size_t left = count - first;
      std::int64_t* const out = positions + first;
      first += draws_.draw(first, std::min(left, kMostSharedDraws), left, [&](const auto* offsets, std::size_t drawn) {
        for (std::size_t i = 0; i < drawn; ++i) out[i] = row.start + static_cast<std::int64_t>(offsets[i]);
      });
    }
    return count;
  }

 private:
  std::size_t likely_draws() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(fanout_, kMostSharedDraws));
  }

  std::uint64_t fanout_;
  EdgeDraws draws_;
};

}  // namespace headrace
