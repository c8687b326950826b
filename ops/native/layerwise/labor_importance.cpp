#include "layerwise/labor_importance.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/fixed_sum.hpp"
#include "core/parallel.hpp"
#include "core/prefetch.hpp"
#include "layerwise/ordered_sum.hpp"
#include "sampling/rule.hpp"

namespace headrace {
namespace {

constexpr double kConverged = 1.0 - 1e-4;
// 1 / pi_t stays below this. A variate is at least 2^-53: such a source is never picked either way.
constexpr double kLargestInverse = 0x1p200;
// Tables of largest values, one for each thread. Fewer than threads where they would take longer to put together than
// the edges to share out.
constexpr std::size_t kMostParts = 16;
constexpr std::size_t kLeastEdgesPerPart = std::size_t{1} << 16;

std::size_t choose_parts(int num_threads, std::size_t num_edges, std::size_t num_candidates) {
  const std::size_t worth = num_edges / std::max(kLeastEdgesPerPart, 2 * num_candidates);
  const auto threads = static_cast<std::size_t>(std::max(num_threads, 1));
  return std::clamp<std::size_t>(worth, 1, std::min(threads, kMostParts));
}

constexpr double kKeepAll = std::numeric_limits<double>::infinity();

struct Moments {
  double inverse = 0.0;      // sum of P^2 / pi over the edges with c * pi <= 1
  double square = 0.0;       // sum of P^2 over them
  double lowest = kKeepAll;  // the smallest 1 / pi among them

  void operator+=(const Moments& other) {
    inverse += other.inverse;
    square += other.square;
    lowest = std::min(lowest, other.lowest);
  }
};

// The c with sum of square / min(1, c / inverse) = sum of square + excess. With the edges of c * pi > 1 at 1 the
// equation is linear in c; its solution grows as edges go to 1, so they are found in a few sweeps, and exactly. `scale`
// is not above the solution.
template <class Square, class Inverse>
double solve_scale(std::size_t degree, double excess, double scale, const Square& square, const Inverse& inverse) {
  for (;;) {
    const auto moments = ordered_sum<Moments>(degree, [&](std::size_t i) {
      const double inverse_pi = inverse(i);
      const double squared = square(i);
      const bool below_one = scale <= inverse_pi;
      return Moments{below_one ? squared * inverse_pi : 0.0, below_one ? squared : 0.0,
                     below_one ? inverse_pi : kKeepAll};
    });
    scale = std::max(scale, moments.inverse / (excess + moments.square));
    if (scale <= moments.lowest) return scale;  // no further edge goes to 1
  }
}

template <class Index>
class Solver {
 public:
  Solver(const LayerEdges<Index>& edges, std::uint64_t fanout, int num_threads, LayerReducer* reducer)
      : edges_(edges),
        part_(reducer, edges.candidates),
        fanout_(fanout),
        num_threads_(threads_for(num_threads, kLayerEdgeNanoseconds * static_cast<double>(edges.sources.size()))),
        num_parts_(choose_parts(num_threads_, edges.sources.size(), edges.num_candidates())),
        largest_(num_parts_ * edges.num_candidates()) {
    result_.scales.resize(edges.num_dst());
    result_.inverse.resize(edges.num_candidates());
    std::fill_n(result_.inverse.data(), result_.inverse.size(), 1.0);
    next_.resize(edges.num_candidates());
  }

  LaborImportance solve(std::int64_t rounds, bool want_sizes) {
    const bool until_converged = rounds == Rule::kUntilConverged;
    add_sizes_ = want_sizes || until_converged;
    if (add_sizes_) part_.count();
    solve_first();
    spread(true);
    for (std::int64_t round = 1;; ++round) {
      std::swap(result_.inverse, next_);
      solve_again(round == 1);
      if (round == rounds && !want_sizes) return std::move(result_);
      spread(false);
      if (until_converged ? has_converged() : round == rounds) return std::move(result_);
      if (part_.is_whole() && !until_converged && changes_nothing(round)) {
        if (add_sizes_)
          result_.expected_sizes.resize(static_cast<std::size_t>(rounds) + 1, result_.expected_sizes.back());
        return std::move(result_);
      }
    }
  }

 private:
  // c_s of each row; `solve` finds that of a row that does not keep all.
  template <class Solve>
  void solve_rows(const Solve& solve) {
    const std::size_t num_dst = edges_.num_dst();
    const std::size_t num_tasks = (num_dst + kLayerRowsPerTask - 1) / kLayerRowsPerTask;
    parallel_for(num_threads_, num_tasks, [&](std::size_t task) {
      Buffer<double> scratch;
      const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
      for (std::size_t row = part_bound(num_dst, num_tasks, task); row < end; ++row) {
        const std::size_t degree = edges_.degree(row);
        if (degree <= fanout_) {
          result_.scales[row] = kKeepAll;
        } else {
          result_.scales[row] = fanout_ == 0 ? 0.0 : solve(row, degree, scratch);
        }
      }
    });
  }

  // With P_ts = 1 / d_s all terms have the factor 1 / d_s^2, which is left out.
  double excess(double degree) const {
    const auto fanout = static_cast<double>(fanout_);
    return edges_.has_weights ? 1.0 / fanout - 1.0 / degree : degree * (degree - fanout) / fanout;
  }

  void solve_first() {
    solve_rows([&](std::size_t row, std::size_t degree, Buffer<double>& /*scratch*/) {
      if (!edges_.has_weights) return static_cast<double>(fanout_) / static_cast<double>(degree);
      const double* const shares = edges_.shares.data() + edges_.begin(row);
      return solve_scale(
          degree, excess(static_cast<double>(degree)), 0.0, [=](std::size_t i) { return shares[i] * shares[i]; },
          [=](std::size_t i) { return 1.0 / shares[i]; });
    });
  }

  void solve_again(bool first) {
    solve_rows([&](std::size_t row, std::size_t degree, Buffer<double>& scratch) {
      // Side by side, as every sweep reads them.
      scratch.resize(degree);
      double* const inverse = scratch.data();
      const Index* const sources = edges_.sources.data() + edges_.begin(row);
      const double* const all = result_.inverse.data();
      const std::size_t left = edges_.sources.size() - edges_.begin(row);
      for (std::size_t i = 0; i < degree; ++i) {
        if (i + kFarPrefetchDistance < left) prefetch_far(all + sources[i + kFarPrefetchDistance]);
        inverse[i] = all[sources[i]];
      }
      const auto inverse_of = [=](std::size_t i) { return inverse[i]; };
      const double rest = excess(static_cast<double>(degree));
      // As no pi grows from round to round, no c falls, but for rounding, and none exceeds 1; but the first one, by
      // weight, was of P in place of pi.
      const double least = first && edges_.has_weights ? 0.0 : std::min(result_.scales[row], 1.0);
      if (!edges_.has_weights) return solve_scale(degree, rest, least, [](std::size_t) { return 1.0; }, inverse_of);
      const double* const shares = edges_.shares.data() + edges_.begin(row);
      return solve_scale(degree, rest, least, [=](std::size_t i) { return shares[i] * shares[i]; }, inverse_of);
    });
  }

  // Whether all further rounds would give what this one did, bit for bit: they are functions of pi and c alone, but for
  // the first one. Parts of a hop do not ask, as all of them have to stop at the same round.
  bool changes_nothing(std::int64_t round) {
    const bool same_pi = std::equal(next_.data(), next_.data() + next_.size(), result_.inverse.data());
    const double* const scales = result_.scales.data();
    const bool same_scales = round > 1 && same_pi && std::equal(scales, scales + result_.scales.size(), last_.data());
    last_.resize(result_.scales.size());
    std::copy(scales, scales + result_.scales.size(), last_.data());
    return same_scales;
  }

  bool has_converged() const {
    const std::vector<double>& sizes = result_.expected_sizes;
    return !(sizes.back() < kConverged * sizes[sizes.size() - 2]);
  }

  // next pi_t = min(1, pi_t * the largest c_s of t's destinations), where round 0 has P_ts in place of pi_t. The sum of
  // them is E|T| of this round.
  void spread(bool first) {
    const bool by_share = first && edges_.has_weights;
    const std::size_t num_candidates = edges_.num_candidates();
    const std::size_t num_edges = edges_.sources.size();
    parallel_for(num_threads_, num_parts_, [&](std::size_t part) {
      double* const largest = largest_.data() + part * num_candidates;
      std::fill_n(largest, num_candidates, 0.0);
      const auto row_of = [&](std::size_t edge) {
        const std::int64_t* const offsets = edges_.offsets.data();
        return static_cast<std::size_t>(
            std::lower_bound(offsets, offsets + edges_.num_dst(), static_cast<std::int64_t>(edge)) - offsets);
      };
      const std::size_t end = row_of(part_bound(num_edges, num_parts_, part + 1));
      for (std::size_t row = row_of(part_bound(num_edges, num_parts_, part)); row < end; ++row) {
        raise_row(row, by_share, largest);
      }
    });
    double* const largest = largest_.data();
    for (std::size_t part = 1; part < num_parts_; ++part) {
      const double* const other = largest + part * num_candidates;
      for (std::size_t t = 0; t < num_candidates; ++t) largest[t] = std::max(largest[t], other[t]);
    }
    if (!part_.is_whole()) part_.reducer().largest(largest);
    const double* const inverse = result_.inverse.data();
    double* const next = next_.data();
    for (std::size_t t = 0; t < num_candidates; ++t) {
      next[t] = std::min(kLargestInverse, std::max(1.0, inverse[t] / largest[t]));
    }
    if (add_sizes_) result_.expected_sizes.push_back(expected_size());
  }

  double expected_size() const {
    const double* const next = next_.data();
    Tally size;
    if (part_.is_whole()) {
      size.sum = fixed_sum(next_.size(), [=](std::size_t t) { return 1.0 / next[t]; });
    } else {
      size.sum = fixed_sum(next_.size(), [&](std::size_t t) { return part_.counts(t) ? 1.0 / next[t] : 0.0; });
    }
    return part_.total(size).sum.value();
  }

  // Raise what the row's sources have in `largest` to c_s. No branch: whether that is more is hard to foretell.
  void raise_row(std::size_t row, bool by_share, double* largest) const {
    const double scale = result_.scales[row];
    const Index* const sources = edges_.sources.data();
    const std::size_t end = edges_.begin(row + 1);
    const std::size_t prefetched = edges_.sources.size() - std::min(edges_.sources.size(), kFarPrefetchDistance);
    for (std::size_t e = edges_.begin(row); e < end; ++e) {
      if (e < prefetched) prefetch_far(largest + sources[e + kFarPrefetchDistance]);
      largest[sources[e]] = std::max(largest[sources[e]], by_share ? scale * edges_.shares[e] : scale);
    }
  }

  const LayerEdges<Index>& edges_;
  LayerPart part_;
  bool add_sizes_ = true;
  std::uint64_t fanout_;
  int num_threads_;
  std::size_t num_parts_;
  LaborImportance result_;
  Buffer<double> next_;
  Buffer<double> last_;     // the scales of the round before
  Buffer<double> largest_;  // [num_parts_ * num_candidates], as no two threads may raise one number
};

}  // namespace

template <class Index>
LaborImportance solve_labor_importance(const LayerEdges<Index>& edges, std::uint64_t fanout, std::int64_t rounds,
                                       bool want_sizes, int num_threads, LayerReducer* reducer) {
  return Solver<Index>(edges, fanout, num_threads, reducer).solve(rounds, want_sizes);
}

template LaborImportance solve_labor_importance<std::int32_t>(const LayerEdges<std::int32_t>&, std::uint64_t,
                                                              std::int64_t, bool, int, LayerReducer*);
template LaborImportance solve_labor_importance<std::int64_t>(const LayerEdges<std::int64_t>&, std::uint64_t,
                                                              std::int64_t, bool, int, LayerReducer*);

}  // namespace headrace
