// Twin of ops/native/layerwise/: LABOR-i and LABOR-* (arXiv 2210.13339). Edges of the layer are those of all rows of a
// frontier, one row after the other: offsets[i] to offsets[i + 1] are of row i. A warp works on a row,
// a block on a long one.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/wide.hpp"
#include "edge_numbers.cuh"
#include "grid.cuh"
#include "group.cuh"
#include "ordered_sum.cuh"
#include "variates.cuh"

namespace headrace {

constexpr double kSmallestShare = 0x1p-500;  // so that its square is a number above 0
constexpr double kLargestInverse = 0x1p200;  // 1 / pi_t stays below it

constexpr double kConverged = 1.0 - 1e-4;  // the part of its size below which a round has to come for another one

inline double infinity() {
  const std::uint64_t bits = std::uint64_t{0x7FF} << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// P_ts of each edge, its part of the row's weight.
template <class Weight>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksOfSums) __global__
    void find_shares(const Weight* weights, const std::int64_t* offsets, std::int64_t num_dst,
                     const std::int64_t* positions, double* shares) {
  for_each_by_length(num_dst, length_between(offsets), [&](const auto& group, std::int64_t i) {
    const std::int64_t first = offsets[i];
    const std::int64_t count = offsets[i + 1] - first;
    const auto weight = [&](std::int64_t k) { return static_cast<double>(weights[positions[first + k]]); };
    const double total = ordered_sum<double>(group, count, weight);
    for (std::int64_t k = group.rank; k < count; k += group.kThreads) {
      shares[first + k] = std::max(weight(k) / total, kSmallestShare);
    }
  });
}

// What is known of rounds that go on until they have converged, three words for each: its expected size in multiples of
// 2^-52 (the sum of the lower 32 bits, and of the others), and whether it is behind the last one. Without `words` the
// host decides.
struct Rounds {
  std::int64_t* words;
  std::int64_t place;  // of this round

  bool is_behind_last() const { return words != nullptr && words[3 * place + 2] != 0; }

  // As FixedSum::value of that many times 2^-52.
  double size(std::int64_t at) const {
    const uint128 units = static_cast<uint128>(static_cast<std::uint64_t>(words[3 * at])) +
                          (static_cast<uint128>(static_cast<std::uint64_t>(words[3 * at + 1])) << 32);
    const auto low = static_cast<std::int64_t>(static_cast<std::uint64_t>(units) & 0xFFFFFU);
    return static_cast<double>(static_cast<std::int64_t>(units >> 20)) * 0x1p-32 +
           static_cast<double>(low << 43) * 0x1p-95;
  }

  // Whether the round before was the last one, or one before that; all threads find the same. Then `needed` gets the
  // number of this round, the first that is not wanted.
  bool decide(std::int64_t round, std::int64_t* needed) const {
    if (words == nullptr || round == 0) return false;
    const bool was_behind = words[3 * place - 1] != 0;
    const bool stops = !was_behind && round >= 2 && !(size(place - 1) < kConverged * size(place - 2));
    if (thread_of_grid() == 0 && (was_behind || stops)) words[3 * place + 2] = 1;
    if (thread_of_grid() == 0 && stops) *needed = round;
    return was_behind || stops;
  }
};

struct Moments {
  double inverse = 0.0;        // sum of P^2 / pi over the edges with c * pi <= 1
  double square = 0.0;         // sum of P^2 over them
  double lowest = infinity();  // the smallest 1 / pi among them

  void operator+=(const Moments& other) {
    inverse += other.inverse;
    square += other.square;
    lowest = std::min(lowest, other.lowest);
  }
};

// The c with sum of square / min(1, c / inverse) = sum of square + excess, as labor_importance.cpp finds it.
template <class Group, class Square, class Inverse>
double solve_scale(const Group& group, std::int64_t degree, double excess, double scale, const Square& square,
                   const Inverse& inverse) {
  for (;;) {
    const auto moments = ordered_sum<Moments>(group, degree, [&](std::int64_t k) {
      const double inverse_pi = inverse(k);
      const double squared = square(k);
      const bool below_one = scale <= inverse_pi;
      Moments one;
      one.inverse = below_one ? squared * inverse_pi : 0.0;
      one.square = below_one ? squared : 0.0;
      one.lowest = below_one ? inverse_pi : infinity();
      return one;
    });
    scale = std::max(scale, moments.inverse / (excess + moments.square));
    if (scale <= moments.lowest) return scale;  // no further edge goes to 1
  }
}

// c_s of each row. In round 0, where there is no `inverse` yet, P_ts stands in the place of pi_t. Without `shares` all
// are 1 / d_s, and terms have the factor 1 / d_s^2, which is left out. `of_edges` is room for 1 / pi of each edge.
template <class Index>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksOfScales) __global__
    void solve_rows(const std::int64_t* offsets, std::int64_t num_dst, std::uint64_t fanout, std::int64_t round,
                    const Index* sources, const double* shares, const double* inverse, double* of_edges, double* scales,
                    std::int64_t* rounds, std::int64_t place, std::int64_t* needed) {
  if (Rounds{rounds, place}.decide(round, needed)) return;
  for_each_by_length(num_dst, length_between(offsets), [&](const auto& group, std::int64_t i) {
    const std::int64_t first = offsets[i];
    const std::int64_t count = offsets[i + 1] - first;
    double scale = 0.0;
    if (static_cast<std::uint64_t>(count) <= fanout) {
      scale = infinity();
    } else if (fanout != 0) {
      const auto wanted = static_cast<double>(fanout);
      const auto degree = static_cast<double>(count);
      const double excess = shares != nullptr ? 1.0 / wanted - 1.0 / degree : degree * (degree - wanted) / wanted;
      const auto square = [=](std::int64_t k) {
        return shares != nullptr ? shares[first + k] * shares[first + k] : 1.0;
      };
      if (round == 0) {
        scale = shares == nullptr ? wanted / degree
                                  : solve_scale(group, count, excess, 0.0, square,
                                                [=](std::int64_t k) { return 1.0 / shares[first + k]; });
      } else {
        // Side by side, as every sweep reads them.
        for (std::int64_t k = group.rank; k < count; k += group.kThreads) {
          of_edges[first + k] = inverse[sources[first + k]];
        }
        group.sync();
        // The first scale by weight was of P in place of pi: no bound of the others.
        const double least = round == 1 && shares != nullptr ? 0.0 : std::min(scales[i], 1.0);
        scale = solve_scale(group, count, excess, least, square, [=](std::int64_t k) { return of_edges[first + k]; });
      }
    }
    group.sync();  // all have read the scale of the round before
    if (group.rank == 0) scales[i] = scale;
  });
}

// Raise what each source has in `largest` to the largest c_s of its destinations, or c_s * P_ts with `shares`. Numbers
// of at least 0 compare like their bits.
template <class Index>
__global__ void raise_sources(const std::int64_t* offsets, std::int64_t num_dst, const Index* sources,
                              const double* shares, const double* scales, std::int64_t* largest, std::int64_t* rounds,
                              std::int64_t place) {
  if (Rounds{rounds, place}.is_behind_last()) return;
  for_each_by_length(num_dst, length_between(offsets), [&](const auto& group, std::int64_t i) {
    for (std::int64_t e = offsets[i] + group.rank; e < offsets[i + 1]; e += group.kThreads) {
      const double value = shares != nullptr ? scales[i] * shares[e] : scales[i];
      std::int64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      // What is not a number, of damaged weights, raises nothing.
      if (value > 0.0 && largest[sources[e]] < bits) atomicMax(largest + sources[e], bits);
    }
  });
}

// next pi_t = min(1, pi_t * largest c_s), and nothing in `largest` for the round to come. `rounds` are told the sum of
// them. Behind the last round both become those that it was for, which the round before has swapped.
__global__ void spread_scales(std::int64_t room, const std::int64_t* num_candidates, double* inverse, double* largest,
                              double* next, std::int64_t* rounds, std::int64_t place) {
  constexpr std::uint64_t kBitsOfOne = 0x3FF0000000000000U;
  const std::int64_t count = count_of(num_candidates, room);
  if (Rounds{rounds, place}.is_behind_last()) {
    for_each_item(count, [&](std::int64_t t) { inverse[t] = next[t]; });
    return;
  }
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for_each_item(count, [&](std::int64_t t) {
    next[t] = std::min(kLargestInverse, std::max(1.0, inverse[t] / largest[t]));
    largest[t] = 0.0;
    const double number = 1.0 + 1.0 / next[t];
    std::uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    const std::uint64_t units = bits - kBitsOfOne;
    low += units & 0xFFFFFFFFU;
    high += units >> 32;
  });
  if (rounds == nullptr) return;
  for (int with = 1; with < kWarp; with *= 2) {
    low += __shfl_xor_sync(kAllLanes, low, with);
    high += __shfl_xor_sync(kAllLanes, high, with);
  }
  if (threadIdx.x % kWarp != 0) return;
  auto* const size = reinterpret_cast<std::uint64_t*>(rounds + 3 * place);
  atomicAdd(size, low);
  atomicAdd(size + 1, high);
}

// r_t / pi_t of each edge, of parallel edges r of their own, and how many edges of each row stay: those with quotients
// up to c_s.
template <class Index>
__global__ void count_kept(const Index* indices, std::uint64_t key, std::uint64_t next_key, std::int64_t blends,
                           double cosine, double sine, const std::int32_t* numbers, const std::int64_t* number_starts,
                           const std::int64_t* starts, const std::int64_t* offsets, std::int64_t num_dst,
                           const std::int64_t* positions, const Index* sources, const double* inverse,
                           const double* scales, double* quotients, std::int64_t* counts) {
  const VariateKeys keys{key, next_key, blends != 0, cosine, sine};
  for_each_by_length(num_dst, length_between(offsets), [&](const auto& group, std::int64_t i) {
    const EdgeNumbers of_edges(numbers, number_starts, i, starts[i]);
    std::int64_t kept = 0;
    for (std::int64_t first = offsets[i]; first < offsets[i + 1]; first += group.kThreads) {
      const std::int64_t e = first + group.rank;
      bool keeps = false;
      if (e < offsets[i + 1]) {
        const std::int64_t position = positions[e];
        const std::uint64_t variate =
            labor_variate(keys, static_cast<std::uint64_t>(indices[position]), of_edges[position - starts[i]]);
        quotients[e] = unit_interval(variate) * inverse[sources[e]];
        keeps = quotients[e] <= scales[i];
      }
      int total = 0;
      group.count_before(keeps, &total);
      kept += total;
    }
    if (group.rank == 0) counts[i] = kept;
  });
}

// The positions of kept edges, and their importance weights: P_ts / probability, scaled to average to 1 in each row.
template <class Index>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksOfSums) __global__
    void keep_edges(const std::int64_t* offsets, std::int64_t num_dst, const std::int64_t* positions,
                    const Index* sources, const double* shares, const double* inverse, const double* scales,
                    const double* quotients, const std::int64_t* first, std::int64_t* kept, float* importance) {
  for_each_by_length(num_dst, length_between(offsets), [&](const auto& group, std::int64_t i) {
    std::int64_t* const out = kept + first[i];  // numbers of edges, then their positions
    const std::int64_t room = first[i + 1] - first[i];
    const double scale = scales[i];
    std::int64_t count = 0;
    for (std::int64_t begin = offsets[i]; begin < offsets[i + 1] && count < room; begin += group.kThreads) {
      const std::int64_t e = begin + group.rank;
      const bool keeps = e < offsets[i + 1] && quotients[e] <= scale;
      int total = 0;
      const int before = group.count_before(keeps, &total);
      if (keeps) out[count + before] = e;
      count += total;
    }
    group.sync();
    const auto value = [&](std::int64_t k) {
      const std::int64_t e = out[k];
      const double inverse_of = std::max(1.0, inverse[sources[e]] / scale);
      return shares != nullptr ? shares[e] * inverse_of : inverse_of;
    };
    const double sum = ordered_sum<double>(group, count, value);
    for (std::int64_t k = group.rank; k < count; k += group.kThreads) {
      importance[first[i] + k] = static_cast<float>(value(k) * static_cast<double>(count) / sum);
      out[k] = positions[out[k]];
    }
  });
}

}  // namespace headrace
