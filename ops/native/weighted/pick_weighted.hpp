// Picks of in-edges by weight, without replacement. An edge of weight 0 is never picked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/ordered_bits.hpp"
#include "core/select_smallest.hpp"
#include "graphs/graph.hpp"
#include "random/stream_words.hpp"
#include "random/unit_interval.hpp"
#include "sampling/picked_set.hpp"
#include "sampling/picker.hpp"
#include "weighted/edge_draws.hpp"
#include "weighted/weights.hpp"

namespace headrace {

// Draws by weight, one after the other, of which those that hit an edge already picked do not count. Where the draws of
// a row would be too many, all of it is looked at: what is still wanted comes from an exponential race of the edges not
// picked (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006), in which edge i of the row, with
// the i-th of the variates behind those of the draws, arrives at -ln(u) / weight. The race has the law of the draws
// that it stands for, so where it sets in changes nothing about the law of the picks.
class WeightedPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kReturnsWeights = false;

  WeightedPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : weights_(weights), fanout_(fanout), draws_(weights, key) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  void prefetch_early(std::int64_t /*node*/) const {}
  const void* beginning(Row row) const {
    return row.degree > fanout_ ? draws_.beginning(row) : weights_.address(row.start);
  }
  void prefetch(std::int64_t /*node*/, Row row) const { draws_.prefetch(row); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_positive(row, weights_, positions);
    if (fanout_ == 0) return 0;
    const std::uint64_t num_draws = draws_before_race(row.degree);
    check_variates(node, num_draws + row.degree);
    const auto wanted = static_cast<std::size_t>(fanout_);
    std::size_t picked = 0;
    if (num_draws != 0) {
      picked_set_.begin(positions, wanted);
      draws_.draw(node, row, num_draws, wanted + 2, [&](std::size_t offset) {
        const std::int64_t position = row.start + static_cast<std::int64_t>(offset);
        if (picked_set_.insert(picked, position)) positions[picked++] = position;
        return picked < wanted;
      });
    }
    return picked == wanted ? picked : race(node, row, num_draws, picked, positions);
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  // Draws without success are few unless much of the row is wanted.
  std::uint64_t draws_before_race(std::uint64_t degree) const {
    return 2 * (degree - fanout_) < fanout_ ? 0 : 4 * fanout_ + 16;
  }

  // Behind the `picked` positions write those of the edges that win the race, in ascending order; of edges that arrive
  // at the same time the first ones win.
  std::size_t race(std::int64_t node, Row row, std::uint64_t num_draws, std::size_t picked, std::int64_t* positions) {
    const auto degree = static_cast<std::size_t>(row.degree);
    std::uint64_t* const times = selector_.keys(degree);
    stream_variates(draws_.keys(), static_cast<std::uint64_t>(node), num_draws, degree, times);
    for (std::size_t i = 0; i < degree; ++i) {
      const double weight = weights_[row.start + static_cast<std::int64_t>(i)];
      const std::uint64_t time = ordered_bits(negative_log(unit_interval(times[i])) / weight);
      times[i] = weight > 0.0 ? time : kNever;
    }
    for (std::size_t i = 0; i < picked; ++i) times[static_cast<std::size_t>(positions[i] - row.start)] = kNever;
    selector_.select(static_cast<std::size_t>(fanout_) - picked, [&](std::size_t i) {
      if (times[i] != kNever) positions[picked++] = row.start + static_cast<std::int64_t>(i);
    });
    return picked;
  }

  EdgeWeights weights_;
  std::uint64_t fanout_;
  EdgeDraws draws_;
  PickedSet picked_set_;
  SmallestSelector selector_;
};

}  // namespace headrace
