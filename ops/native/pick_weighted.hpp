// Picks of in-edges by weight, destination by destination. An edge of weight 0 is never picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "buffer.hpp"
#include "distinct_draws.hpp"
#include "graph.hpp"
#include "picked_set.hpp"
#include "picker.hpp"
#include "prefetch.hpp"
#include "running_sums.hpp"
#include "select_smallest.hpp"
#include "stream_variates.hpp"
#include "weighted_loops.hpp"
#include "weights.hpp"

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

// The draws of one row after another: draw i takes words 2i and 2i + 1 of the destination's stream. A row is prepared
// some rows before it is drawn from, so that it waits neither for memory nor for a chain of operations when its turn
// comes: the processor works on these while it draws from other rows.
class EdgeDraws {
 public:
  static constexpr std::size_t kMost = DrawnParts::kMost;  // at a time; what fills a vector register

  EdgeDraws(EdgeWeights weights, std::uint64_t key) : weights_(weights), keys_(key) {}

  // Announce what prepare will read of a row, but for the sums of very long rows that lie where the draws fall.
  void announce(Row row) const {
    if (row.degree == 0) return;
    const std::int64_t end = row.start + static_cast<std::int64_t>(row.degree);
    prefetch_read(weights_.address(end - 1));
    if (row.degree <= kWholeRow) {
      const std::int64_t per_line = kCacheLineBytes / (weights_.narrow != nullptr ? sizeof(float) : sizeof(double));
      for (std::int64_t e = row.start; e < end; e += per_line) prefetch_read(weights_.address(e));
    } else if (weights_.sums != nullptr) {
      const double* const sums = weights_.sums + first_sum(row);
      const std::size_t count = sums_in_row(row);
      prefetch_read(sums + count - 1);
      if (count > kWholeRow) return;
      for (std::size_t i = 0; i < count; i += kCacheLineBytes / sizeof(double)) prefetch_read(sums + i);
    }
  }

  // Begin the first draws of a row whose degree is positive, `count` <= kMost of them if it is a long one.
  void prepare(std::int64_t vertex, Row row, std::size_t count) {
    Prepared& prepared = prepared_[num_prepared_++ % kMostPrepared];
    prepare_variates(prepared, vertex);
    if (row.degree <= kWholeRow) {
      sum_row(weights_, row, prepared.sums);
      prepared.total = prepared.sums[row.degree - 1];
    } else if (weights_.sums != nullptr) {
      begin_draws(prepared, row, weights_.sums + first_sum(row), count);
    }
  }

  // The same for a row of which no sums will be asked.
  void prepare_variates(std::int64_t vertex) { prepare_variates(prepared_[num_prepared_++ % kMostPrepared], vertex); }

  // Turn to the row that was prepared after the one before.
  void turn() { prepared_now_ = &prepared_[num_turns_++ % kMostPrepared]; }

  // Begin to draw from it. Returns the sum of its weights.
  double begin(std::int64_t vertex, Row row, std::size_t count) {
    vertex_ = vertex;
    row_ = row;
    if (row.degree <= kWholeRow) return prepared_now_->total;
    if (weights_.sums != nullptr) {
      part_sums_ = weights_.sums + first_sum(row);
    } else {
      made_.resize(sums_in_row(row));
      sum_parts(weights_, row, made_.data());
      part_sums_ = made_.data();
      begin_draws(*prepared_now_, row, part_sums_, count);
    }
    return prepared_now_->total;
  }

  const StreamKeys& keys() const { return keys_; }

  // The first kMost variates of the row.
  const std::uint64_t* variates() const { return prepared_now_->variates; }

  // All running sums of a row of at most kWholeRow edges.
  const double* all_sums() const { return prepared_now_->sums; }

  // Make draws first, first + 1, ..., count <= kMost of them. `first` is even. Returns offsets in the row.
  const std::uint64_t* make(std::uint64_t first, std::size_t count) {
    const bool prepared = first + count <= kMost;
    if (!prepared) {
      stream_variates(keys_, static_cast<std::uint64_t>(vertex_), static_cast<std::uint32_t>(first / 2), count, more_);
    }
    const std::uint64_t* const variates = prepared ? prepared_now_->variates + first : more_;
    if (row_.degree <= kWholeRow) {
      find_edges(prepared_now_->sums, static_cast<std::size_t>(row_.degree), variates, count, offsets_);
    } else if (weights_.narrow != nullptr) {
      find(weights_.narrow, variates, first, count);
    } else {
      find(weights_.wide, variates, first, count);
    }
    return offsets_;
  }

 private:
  struct Prepared {
    double total;
    std::size_t num_begun;  // draws of a longer row
    DrawnParts begun;
    double sums[kWholeRow];  // of a shorter one
    std::uint64_t variates[kMost + kVariatesSlack];
  };

  void prepare_variates(Prepared& prepared, std::int64_t vertex) const {
    stream_variates(keys_, static_cast<std::uint64_t>(vertex), 0, kMost, prepared.variates);
  }

  void begin_draws(Prepared& prepared, Row row, const double* part_sums, std::size_t count) const {
    if (weights_.narrow != nullptr) {
      begin_draws(prepared, SummedRow<float>(weights_.narrow, part_sums, row), count);
    } else {
      begin_draws(prepared, SummedRow<double>(weights_.wide, part_sums, row), count);
    }
  }

  template <class Weight>
  static void begin_draws(Prepared& prepared, const SummedRow<Weight>& row, std::size_t count) {
    prepared.total = row.total();
    prepared.num_begun = count;
    draw_parts(row, prepared.total, prepared.variates, count, prepared.begun);
  }

  template <class Weight>
  void find(const Weight* weights, const std::uint64_t* variates, std::uint64_t first, std::size_t count) {
    const SummedRow<Weight> row(weights, part_sums_, row_);
    DrawnParts& drawn = prepared_now_->begun;
    if (first != 0 || count > prepared_now_->num_begun) draw_parts(row, prepared_now_->total, variates, count, drawn);
    find_in_parts(row, drawn, count, offsets_);
  }

  EdgeWeights weights_;
  StreamKeys keys_;
  Prepared prepared_[kMostPrepared];
  std::ptrdiff_t num_prepared_ = 0;
  std::ptrdiff_t num_turns_ = 0;
  Prepared* prepared_now_ = nullptr;
  std::int64_t vertex_ = 0;
  Row row_{};
  const double* part_sums_ = nullptr;  // of a longer row; see SummedRow
  Buffer<double> made_;
  std::uint64_t more_[kMost + kVariatesSlack];
  std::uint64_t offsets_[kMost];
};

// Without replacement: draws by weight, one after the other, of which those that hit an edge already picked do not
// count. Draw i takes words 2i and 2i + 1 of the destination's stream. Where the draws of a row would be too many, all
// of it is looked at: what is still wanted comes from an exponential race of the edges not picked (Efraimidis and
// Spirakis, "Weighted random sampling with a reservoir", 2006), in which edge i of the row runs for -ln(u_i) / weight.
// The race has the law of the draws that it stands for, so where it sets in changes nothing about the law of the picks.
class WeightedPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPrepare;
  static constexpr bool kReturnsWeights = false;

  WeightedPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights),
        fanout_(fanout),
        whole_rows_(fanout <= kMostDistinctDraws && draws_whole_rows()),
        draws_(weights, key) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  bool reads(Row row) const { return row.degree > fanout_ || (row.degree != 0 && !weights_.all_positive); }

  void announce(Row row) const {
    if (!reads(row)) return;
    if (row.degree > fanout_ && most_draws(row.degree) != 0) {
      draws_.announce(row);
    } else {
      prefetch_read(weights_.address(row.start));
      prefetch_read(weights_.address(row.start + static_cast<std::int64_t>(row.degree) - 1));
    }
  }

  void prepare(std::int64_t vertex, Row row) {
    if (row.degree <= fanout_ || fanout_ == 0) return;
    if (most_draws(row.degree) != 0) {
      draws_.prepare(vertex, row, first_draws());
    } else {
      draws_.prepare_variates(vertex);
    }
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
      picked_set_.begin(positions, wanted);
      if (!(draws_.begin(vertex, row, first_draws()) > 0.0)) return 0;
      static_assert(kMostWeightedDegree <= kWholeRow, "all sums of rows that are looked at as a whole are made");
      if (whole_rows_ && degree <= kMostWeightedDegree) {
        picked =
            draw_distinct_by_weight(draws_.keys(), static_cast<std::uint64_t>(vertex), row.start, draws_.variates(),
                                    draws_.all_sums(), degree, wanted, static_cast<std::size_t>(num_draws), positions);
        return picked == wanted ? picked : race(vertex, row, num_draws, picked, positions);
      }
      for (std::uint64_t first = 0; first < num_draws;) {
        std::size_t count = EdgeDraws::kMost;
        // To find an edge in a long row takes longer than to begin anew: no more draws than are wanted.
        if (degree > kWholeRow) count = first == 0 ? first_draws() : (wanted - picked + 1) / 2 * 2;
        count = static_cast<std::size_t>(std::min({count, EdgeDraws::kMost, num_draws - first}));
        const std::uint64_t* const offsets = draws_.make(first, count);
        if (first == 0 && whole_rows_) {
          picked = take_distinct(offsets, count, wanted, row.start, positions);
          if (picked == wanted) return picked;
          for (std::size_t i = 0; i < picked; ++i) picked_set_.insert(i, positions[i]);
          first = count;
          continue;
        }
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t position = row.start + static_cast<std::int64_t>(offsets[i]);
          if (!picked_set_.insert(picked, position)) continue;
          positions[picked++] = position;
          if (picked == wanted) return picked;
        }
        first += count;
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
  // Draws without success are few unless much of the row is wanted. A multiple of 2: whole blocks of words.
  std::uint64_t most_draws(std::uint64_t degree) const {
    return 2 * (degree - fanout_) < fanout_ ? 0 : 4 * fanout_ + 16;
  }

  // Of a long row. Two more than are wanted: where one edge is hit twice, to begin anew means to wait for memory.
  std::size_t first_draws() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>((fanout_ + 1) / 2 * 2 + 2, EdgeDraws::kMost));
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
      stream_variates(draws_.keys(), static_cast<std::uint64_t>(vertex), static_cast<std::uint32_t>(num_draws / 2),
                      degree, times_.data());
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
  bool whole_rows_;
  EdgeDraws draws_;
  PickedSet picked_set_;
  Buffer<std::uint64_t> times_;
  Buffer<std::uint32_t> kept_;
  SmallestSelector selector_;
};

// With replacement: `fanout` draws; draw i takes words 2i and 2i + 1 of the destination's stream.
class WeightedReplacementPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPrepare;
  static constexpr bool kReturnsWeights = false;

  WeightedReplacementPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : fanout_(fanout), draws_(weights, key) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  bool reads(Row row) const { return row.degree != 0; }
  void announce(Row row) const { draws_.announce(row); }

  void prepare(std::int64_t vertex, Row row) {
    if (row.degree != 0) draws_.prepare(vertex, row, first_draws());
  }

  std::size_t operator()(std::int64_t vertex, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree == 0) return 0;
    draws_.turn();
    if (!(draws_.begin(vertex, row, first_draws()) > 0.0)) return 0;
    const auto count = static_cast<std::size_t>(fanout_);
    for (std::size_t first = 0; first < count; first += EdgeDraws::kMost) {
      const std::size_t more = std::min(count - first, EdgeDraws::kMost);
      const std::uint64_t* const offsets = draws_.make(first, more);
      for (std::size_t i = 0; i < more; ++i) positions[first + i] = row.start + static_cast<std::int64_t>(offsets[i]);
    }
    return count;
  }

 private:
  std::size_t first_draws() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(fanout_, EdgeDraws::kMost));
  }

  std::uint64_t fanout_;
  EdgeDraws draws_;
};

}  // namespace headrace
