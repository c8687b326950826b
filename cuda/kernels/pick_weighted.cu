// Twin of ops/native/weighted/: picks by edge weight. An edge of weight 0 is never picked. A warp works on a row,
// a block on a long one.

#include <algorithm>
#include <cstdint>

#include "edge_numbers.cuh"
#include "grid.cuh"
#include "group.cuh"
#include "ordered_sum.cuh"
#include "smallest.cuh"
#include "summed_row.cuh"
#include "variates.cuh"

namespace headrace {

constexpr std::uint64_t kNever = ~std::uint64_t{0};

// Running sums of rows, of the weights before every kEdgesPerSum-th edge but the row's first one.
template <class Weight>
__global__ void sum_rows(const Weight* weights, const std::int64_t* starts, const std::int64_t* degrees,
                         std::int64_t num_rows, const std::int64_t* sum_starts, double* sums) {
  for_each_by_length(num_rows, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const std::int64_t start = starts[i];
    const std::int64_t degree = degrees[i];
    double* const of_row = sums_of_row(sums, sum_starts, i, start);
    double sum = 0.0;
    for (std::int64_t first = 0; first < degree; first += group.kThreads) {
      const std::int64_t k = first + group.rank;
      const double own = k < degree ? static_cast<double>(weights[start + k]) : 0.0;
      double before = 0.0;
      visit_lanes(group, own, degree - first, [&](int lane, double weight) {
        if (lane == group.rank) before = sum;
        sum += weight;
      });
      if (k == 0 || k >= degree || (start + k) % kEdgesPerSum != 0) continue;
      of_row[(start + k) / kEdgesPerSum - first_sum(start)] = before;
    }
  });
}

// Edges of a row for which takes(k) holds, in order: how many there are, and with `out` their positions.
template <class Group, class Takes>
std::int64_t take_edges(const Group& group, std::int64_t start, std::int64_t degree, const Takes& takes,
                        std::int64_t* out) {
  std::int64_t taken = 0;
  for (std::int64_t first = 0; first < degree; first += Group::kThreads) {
    const std::int64_t k = first + group.rank;
    const bool takes_it = k < degree && takes(k);
    int total = 0;
    const int before = group.count_before(takes_it, &total);
    if (takes_it && out != nullptr) out[taken + before] = start + k;
    taken += total;
  }
  return taken;
}

// All edges of positive weight. With `counts` they are counted.
template <class Weight>
__global__ void pick_positive(const Weight* weights, const std::int64_t* starts, const std::int64_t* degrees,
                              std::int64_t num_dst, std::int64_t* counts, const std::int64_t* first,
                              std::int64_t* positions) {
  for_each_by_length(num_dst, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const Weight* const row = weights + starts[i];
    const std::int64_t taken = take_edges(
        group, starts[i], degrees[i], [=](std::int64_t k) { return static_cast<double>(row[k]) > 0.0; },
        counts != nullptr ? nullptr : positions + first[i]);
    if (counts != nullptr && group.rank == 0) counts[i] = taken;
  });
}

// Draws of a row without replacement, as ops/native/weighted/pick_weighted.hpp has them.
template <class Group, class Weight>
class WeightedRow {
 public:
  WeightedRow(const Group& group, const Weight* weights, const double* sums, std::uint64_t key, std::int64_t node,
              std::int64_t start, std::int64_t degree, std::int64_t fanout, std::int64_t* out)
      : group_(group),
        row_(weights, sums, start, degree),
        weights_(weights + start),
        key_(key),
        node_(static_cast<std::uint64_t>(node)),
        start_(start),
        degree_(degree),
        fanout_(fanout),
        out_(out) {}

  std::int64_t pick(Bins& bins) const {
    // Draws without success are few unless much of the row is wanted.
    const std::int64_t num_draws = 2 * (degree_ - fanout_) < fanout_ ? 0 : 4 * fanout_ + 16;
    const std::int64_t picked = num_draws == 0 ? 0 : draw(num_draws);
    return picked == fanout_ ? picked : race(num_draws, picked, bins);
  }

 private:
  bool is_picked(std::int64_t position, std::int64_t picked) const {
    bool found = false;
    for (std::int64_t k = 0; k < picked; ++k) found |= out_[k] == position;
    return found;
  }

  // Each thread makes a draw, and those that hit nothing picked by an earlier one count, in their order.
  std::int64_t draw(std::int64_t num_draws) const {
    __shared__ std::int64_t drawn[Group::kPerBlock][Group::kThreads];
    std::int64_t* const of_group = drawn[group_.in_block];
    const double total = row_.total();
    if (!(total > 0.0)) return 0;
    std::int64_t picked = 0;
    for (std::int64_t first = 0; first < num_draws && picked < fanout_; first += Group::kThreads) {
      const std::int64_t i = first + group_.rank;
      const double u = unit_interval(stream_variate(key_, node_, static_cast<std::uint64_t>(i)));
      const std::int64_t position = start_ + row_.find(u, total);
      of_group[group_.rank] = position;
      group_.sync();
      bool counts = i < num_draws && !is_picked(position, picked);
      for (int other = 0; other < group_.rank; ++other) counts &= of_group[other] != position;
      int num_fresh = 0;
      const std::int64_t place = picked + group_.count_before(counts, &num_fresh);
      if (counts && place < fanout_) out_[place] = position;
      picked = std::min(picked + num_fresh, fanout_);
      group_.sync();  // all look through the picks, and draw anew
    }
    return picked;
  }

  // What is still wanted goes to the edges not picked that arrive first.
  std::int64_t race(std::int64_t num_draws, std::int64_t picked, Bins& bins) const {
    const auto races = [&](std::int64_t k) {
      return static_cast<double>(weights_[k]) > 0.0 && !is_picked(start_ + k, picked);
    };
    const std::int64_t wanted = std::min(fanout_ - picked, take_edges(group_, start_, degree_, races, nullptr));
    if (wanted == 0) return picked;
    const auto time = [&](std::int64_t k) {
      if (!races(k)) return kNever;
      const std::uint64_t variate = stream_variate(key_, node_, static_cast<std::uint64_t>(num_draws + k));
      return ordered_bits(negative_log(unit_interval(variate)) / static_cast<double>(weights_[k]));
    };
    const Limit limit = find_limit(group_, degree_, static_cast<std::uint64_t>(wanted), kWidestBin, bins, time);
    emit_up_to(group_, degree_, limit, time,
               [&](std::int64_t k, std::int64_t place) { out_[picked + place] = start_ + k; });
    return picked + wanted;
  }

  const Group& group_;
  SummedRow<Weight> row_;
  const Weight* weights_;
  std::uint64_t key_;
  std::uint64_t node_;
  std::int64_t start_;
  std::int64_t degree_;
  std::int64_t fanout_;
  std::int64_t* out_;
};

// Picks without replacement, to positions[places[i]] and behind it, and how many there are.
template <class Weight>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksOfSums) __global__
    void pick_weighted(const Weight* weights, const double* sums, const std::int64_t* sum_starts, std::uint64_t key,
                       const std::int64_t* frontier, const std::int64_t* slots, const std::int64_t* starts,
                       const std::int64_t* degrees, std::int64_t num_dst, std::int64_t fanout,
                       const std::int64_t* places, std::int64_t* positions, std::int64_t* counts) {
  __shared__ Bins bins[WarpGroup::kPerBlock];
  Bins* const bins_of_group = bins;
  for_each_by_length(num_dst, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const std::int64_t start = starts[i];
    const std::int64_t degree = degrees[i];
    std::int64_t* const out = positions + places[i];
    std::int64_t picked = 0;
    if (degree <= fanout) {
      const auto is_positive = [&](std::int64_t k) { return static_cast<double>(weights[start + k]) > 0.0; };
      picked = take_edges(group, start, degree, is_positive, out);
    } else if (fanout > 0) {
      const std::uint64_t key_here = slots == nullptr ? key : slot_key(key, static_cast<std::uint64_t>(slots[i]));
      const double* const of_row = sums_of_row(sums, sum_starts, i, start);
      const WeightedRow row(group, weights, of_row, key_here, frontier[i], start, degree, fanout, out);
      picked = row.pick(bins_of_group[group.in_block]);
    }
    if (group.rank == 0) counts[i] = picked;
  });
}

// Picks lie apart where a row has fewer than there is room for: put them together.
__global__ void move_picks(const std::int64_t* places, const std::int64_t* from, const std::int64_t* first,
                           std::int64_t num_dst, std::int64_t* positions) {
  for_each_by_warp(num_dst, [&](std::int64_t i, int lane) {
    const std::int64_t count = first[i + 1] - first[i];
    for (std::int64_t k = lane; k < count; k += kWarp) positions[first[i] + k] = from[places[i] + k];
  });
}

// `fanout` draws of each row that has a positive sum: draw i is pick i. With `counts` picks are counted.
template <class Weight>
__global__ void pick_weighted_replacement(const Weight* weights, const double* sums, const std::int64_t* sum_starts,
                                          std::uint64_t key, const std::int64_t* frontier, const std::int64_t* slots,
                                          const std::int64_t* starts, const std::int64_t* degrees, std::int64_t num_dst,
                                          std::int64_t fanout, std::int64_t* counts, const std::int64_t* first,
                                          std::int64_t* positions) {
  for_each_by_warp(num_dst, [&](std::int64_t i, int lane) {
    std::int64_t count = 0;
    if (degrees[i] > 0) {
      const SummedRow<Weight> row(weights, sums_of_row(sums, sum_starts, i, starts[i]), starts[i], degrees[i]);
      const double total = row.total();
      if (total > 0.0) count = fanout;
      if (counts == nullptr) {
        const std::uint64_t key_here = slots == nullptr ? key : slot_key(key, static_cast<std::uint64_t>(slots[i]));
        for (std::int64_t k = lane; k < count; k += kWarp) {
          const std::uint64_t variate =
              stream_variate(key_here, static_cast<std::uint64_t>(frontier[i]), static_cast<std::uint64_t>(k));
          positions[first[i] + k] = starts[i] + row.find(unit_interval(variate), total);
        }
      }
    }
    if (counts != nullptr && lane == 0) counts[i] = count;
  });
}

// LABOR-0 by weight, as ops/native/weighted/pick_labor_weighted.hpp has it. With `counts` picks are counted.
template <class Index, class Weight>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksOfSums) __global__
    void pick_labor_weighted(const Index* indices, std::uint64_t key, std::uint64_t next_key, std::int64_t blends,
                             double cosine, double sine, const std::int32_t* numbers, const std::int64_t* number_starts,
                             const Weight* weights, const std::int64_t* slots, const std::int64_t* starts,
                             const std::int64_t* degrees, std::int64_t num_dst, std::int64_t fanout, std::int64_t exact,
                             std::int64_t* counts, const std::int64_t* first, std::int64_t* positions,
                             float* importance) {
  __shared__ Bins bins[WarpGroup::kPerBlock];
  Bins* const bins_of_group = bins;
  for_each_by_length(num_dst, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const std::int64_t start = starts[i];
    const std::int64_t degree = degrees[i];
    const auto weight = [&](std::int64_t k) { return static_cast<double>(weights[start + k]); };
    const auto is_positive = [&](std::int64_t k) { return weight(k) > 0.0; };
    const std::int64_t num_positive = take_edges(group, start, degree, is_positive, nullptr);
    const bool all = num_positive <= fanout;
    if (counts != nullptr && (all || exact != 0 || fanout == 0)) {
      if (group.rank == 0) counts[i] = all ? num_positive : fanout;
      return;
    }
    if (!all && fanout == 0) return;
    std::int64_t* const out = counts != nullptr ? nullptr : positions + first[i];
    double smallest = 0.0;  // where every probability is 1
    std::int64_t picked = 0;
    if (all) {
      picked = take_edges(group, start, degree, is_positive, out);
    } else {
      VariateKeys keys{key, next_key, blends != 0, cosine, sine};
      if (slots != nullptr) keys = slot_keys(keys, static_cast<std::uint64_t>(slots[i]));
      const EdgeNumbers of_edges(numbers, number_starts, i, start);
      const auto variate = [&](std::int64_t k) {
        return unit_interval(labor_variate(keys, static_cast<std::uint64_t>(indices[start + k]), of_edges[k]));
      };
      const auto wanted = static_cast<double>(fanout);
      const double total =
          sum_in_order<double>(group, degree, [&](std::int64_t k) { return is_positive(k) ? weight(k) : 0.0; });
      smallest = total / wanted;
      if (exact != 0) {
        const auto quotient = [&](std::int64_t k) {
          return is_positive(k) ? ordered_bits(variate(k) / weight(k)) : kNever;
        };
        const Limit limit = find_limit(group, degree, static_cast<std::uint64_t>(fanout), kWidestBin,
                                       bins_of_group[group.in_block], quotient);
        picked = emit_up_to(group, degree, limit, quotient,
                            [&](std::int64_t k, std::int64_t place) { out[place] = start + k; });
      } else {
        const auto takes = [&](std::int64_t k) { return is_positive(k) && variate(k) <= wanted * weight(k) / total; };
        picked = take_edges(group, start, degree, takes, out);
      }
    }
    if (counts != nullptr) {
      if (group.rank == 0) counts[i] = picked;
      return;
    }
    group.sync();  // all read what others have picked
    const auto scaled = [&](std::int64_t p) { return std::max(weight(out[p] - start), smallest); };
    const double sum = sum_in_order<double>(group, picked, scaled);
    for (std::int64_t p = group.rank; p < picked; p += group.kThreads) {
      importance[first[i] + p] = static_cast<float>(scaled(p) * static_cast<double>(picked) / sum);
    }
  });
}

}  // namespace headrace
