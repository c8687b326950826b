// Draws of edges by weight, row after row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"
#include "graphs/graph.hpp"
#include "random/stream_variates.hpp"
#include "sampling/picker.hpp"
#include "weighted/running_shares.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/weighted_loops.hpp"
#include "weighted/weights.hpp"

namespace headrace {

// Draw i of a row takes variate i of the destination (stream_variates.hpp). A row is prepared some rows before it is
// drawn from, so that it waits neither for memory nor for a chain of operations when its turn comes: the processor
// works on these while it draws from other rows. What an edge is found by depends on the row and on the tables that
// there are: its shares, all of its sums, or every sixteenth of these; the outcome does not.
class EdgeDraws {
 public:
  static constexpr std::size_t kMost = DrawnParts::kMost;  // at a time; what fills two vector registers

  EdgeDraws(EdgeWeights weights, std::uint64_t key) : weights_(weights), keys_(key) {}

  // Announce what prepare will read of a row, but for the sums of very long rows that lie where the draws fall.
  void announce(Row row) const {
    if (row.degree == 0) return;
    const auto degree = static_cast<std::size_t>(row.degree);
    if (has_shares(row)) return prefetch_array(weights_.shares + row.start, degree);
    if (degree <= kWholeRow) return weights_.announce(row.start, degree);
    prefetch_read(weights_.address(row.start + static_cast<std::int64_t>(degree) - 1));
    if (weights_.sums == nullptr) return;
    const double* const sums = weights_.sums + first_sum(row, weights_.lead);
    const std::size_t count = sums_in_row(row, weights_.lead);
    if (count <= kWholeRow) return prefetch_array(sums, count);
    prefetch_read(sums + count - 1);
  }

  // Announce the sums of a row without shares long before it is prepared, into the second level cache. Of very long
  // rows the first ones, as any of them may be read.
  void announce_sums(Row row) const {
    if (row.degree <= kMostSharedDegree) return;
    prefetch_far(weights_.address(row.start + static_cast<std::int64_t>(row.degree) - 1));
    const std::size_t count = sums_in_row(row, weights_.lead);
    if (weights_.sums == nullptr) return;
    prefetch_far_array(weights_.sums + first_sum(row, weights_.lead), std::min(count, kMostAnnouncedSums));
  }

  // Begin the first draws of a row whose degree is positive. `likely` <= kMostSharedDraws is how many there may be.
  void prepare(std::int64_t vertex, Row row, std::size_t likely) {
    Prepared& prepared = prepared_[num_prepared_++ % kMostPrepared];
    prepared.has_sums = false;
    look_up_shares(prepared, vertex, row, 0, likely);
    if (prepared.num_told == 0) prepare_sums(prepared, vertex, row, likely);
  }

  // The same for a row of which no draw will be asked, but kMost variates.
  void prepare_variates(std::int64_t vertex) { make_variates(prepared_[num_prepared_++ % kMostPrepared], vertex); }

  // Turn to the row that was prepared after the one before.
  void turn() { prepared_now_ = &prepared_[num_turns_++ % kMostPrepared]; }

  // Begin to draw from it, if it was prepared for draws. Returns whether there is anything to draw.
  bool begin(std::int64_t vertex, Row row) {
    vertex_ = vertex;
    row_ = row;
    if (prepared_now_->num_told != 0) return true;  // shares tell of no row whose weights are all 0
    if (row.degree > kWholeRow) begin_long();
    return prepared_now_->total > 0.0;
  }

  const StreamKeys& keys() const { return keys_; }

  // The first kMost variates of the row.
  const std::uint64_t* variates() const { return prepared_now_->variates; }

  // Call take(offsets, count) with the offsets in the row of draws first, first + 1, ..., at most `most` of them, by
  // the shares where these tell. `likely` is how many may be needed; `first` is 0 or where the draws before ended.
  // Returns `count`, which is positive.
  template <class Take>
  std::size_t draw(std::uint64_t first, std::size_t likely, std::size_t most, const Take& take) {
    std::size_t count = std::min(num_told(first, likely), most);
    if (count != 0) {
      take(told(first), count);
    } else {
      count = std::min({likely, kMost, most});
      take(make(first, count), count);
    }
    return count;
  }

 private:
  static constexpr std::size_t kMostAnnouncedSums = 256;

  struct Prepared {
    std::uint64_t first_told;
    std::size_t num_told;
    bool has_sums;  // otherwise what follows the offsets means nothing
    // Vectors are stored in these two and read again soon: each begins on a cache line.
    alignas(64) std::uint16_t offsets[kMostSharedDraws];  // of the draws that the shares tell
    alignas(64) std::uint64_t variates[kMost + kVariatesSlack];
    double total;
    std::size_t num_begun;  // draws of a longer row
    DrawnParts begun;
    double sums[kWholeRow];  // of a shorter one
  };

  bool has_shares(Row row) const { return weights_.shares != nullptr && row.degree <= kMostSharedDegree; }

  // How many of draws first, first + 1, ..., up to `count` <= kMostSharedDraws, the shares tell; or more or fewer, as
  // blocks of variates begin elsewhere. Where it is none the sums have to be asked.
  std::size_t num_told(std::uint64_t first, std::size_t count) {
    const Prepared& prepared = *prepared_now_;
    const auto end = [&] { return prepared.first_told + prepared.num_told; };
    if (first >= end()) look_up_shares(*prepared_now_, vertex_, row_, first, count);
    return static_cast<std::size_t>(std::max(end(), first) - first);
  }

  // The offsets in the row of the draws that were told, from `first` on.
  const std::uint16_t* told(std::uint64_t first) const {
    return prepared_now_->offsets + (first - prepared_now_->first_told);
  }

  // Make draws first, first + 1, ..., count <= kMost of them, by the sums. Returns offsets in the row.
  const std::uint64_t* make(std::uint64_t first, std::size_t count) {
    Prepared& prepared = *prepared_now_;
    if (!prepared.has_sums) {
      prepare_sums(prepared, vertex_, row_, 0);
      if (row_.degree > kWholeRow) begin_long();
    }
    const std::uint64_t* variates = prepared.variates + first;
    if (first + count > kMost) {
      const auto skipped = static_cast<std::size_t>(first % kVariatesInBlock);
      stream_variates(keys_, static_cast<std::uint64_t>(vertex_), block_of_variate(first), count + skipped, more_);
      variates = more_ + skipped;
    }
    if (row_.degree <= kWholeRow) {
      find_edges(prepared.sums, static_cast<std::size_t>(row_.degree), variates, count, offsets_);
    } else if (weights_.narrow != nullptr) {
      find(weights_.narrow, variates, first, count);
    } else {
      find(weights_.wide, variates, first, count);
    }
    return offsets_;
  }

  void look_up_shares(Prepared& prepared, std::int64_t vertex, Row row, std::uint64_t first, std::size_t count) const {
    const std::size_t skipped = first % kVariatesInBlock;
    prepared.first_told = first - skipped;
    prepared.num_told = 0;
    if (!has_shares(row)) return;
    prepared.num_told = find_by_shares(keys_, static_cast<std::uint64_t>(vertex), block_of_variate(first),
                                       weights_.shares + row.start, static_cast<std::size_t>(row.degree),
                                       std::min(skipped + count, kMostSharedDraws), prepared.offsets);
  }

  void make_variates(Prepared& prepared, std::int64_t vertex) const {
    stream_variates(keys_, static_cast<std::uint64_t>(vertex), 0, kMost, prepared.variates);
  }

  void prepare_sums(Prepared& prepared, std::int64_t vertex, Row row, std::size_t likely) const {
    prepared.has_sums = true;
    prepared.num_begun = std::min(likely, kMost);
    make_variates(prepared, vertex);
    if (row.degree <= kWholeRow) {
      sum_row(weights_, row, prepared.sums);
      prepared.total = prepared.sums[row.degree - 1];
    } else if (weights_.sums != nullptr) {
      begin_draws(prepared, row, weights_.sums + first_sum(row, weights_.lead));
    }
  }

  // Turn to the sums of a longer row, which are made now if there is no table of them.
  void begin_long() {
    if (weights_.sums != nullptr) {
      part_sums_ = weights_.sums + first_sum(row_, weights_.lead);
      return;
    }
    made_.resize(sums_in_row(row_, weights_.lead));
    sum_parts(weights_, row_, made_.data());
    part_sums_ = made_.data();
    begin_draws(*prepared_now_, row_, part_sums_);
  }

  void begin_draws(Prepared& prepared, Row row, const double* part_sums) const {
    if (weights_.narrow != nullptr) {
      begin_draws(prepared, SummedRow<float>(weights_.narrow, part_sums, row, weights_.lead));
    } else {
      begin_draws(prepared, SummedRow<double>(weights_.wide, part_sums, row, weights_.lead));
    }
  }

  template <class Weight>
  static void begin_draws(Prepared& prepared, const SummedRow<Weight>& row) {
    prepared.total = row.total();
    draw_parts(row, prepared.total, prepared.variates, prepared.num_begun, prepared.begun);
  }

  template <class Weight>
  void find(const Weight* weights, const std::uint64_t* variates, std::uint64_t first, std::size_t count) {
    const SummedRow<Weight> row(weights, part_sums_, row_, weights_.lead);
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
  std::uint64_t more_[kMost + kVariatesInBlock + kVariatesSlack];
  std::uint64_t offsets_[kMost];
};

}  // namespace headrace
