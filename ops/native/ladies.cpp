#include "ladies.hpp"

#include <algorithm>

#include "labor_variates.hpp"
#include "ordered_sum.hpp"
#include "select_smallest.hpp"
#include "unit_interval.hpp"

namespace headrace {
namespace {

struct Mass {
  double score = 0.0;     // sum of q_t over the sources with c * q_t <= 1
  std::size_t count = 0;  // how many these are

  void operator+=(const Mass& other) {
    score += other.score;
    count += other.count;
  }
};

// One pass in edge order: what is added to a score, and in which order, is the same for any number of threads.
template <class Index>
Buffer<double> add_scores(const LayerEdges<Index>& edges) {
  Buffer<double> scores(edges.num_candidates());
  std::fill_n(scores.data(), scores.size(), 0.0);
  for (std::size_t row = 0; row < edges.num_dst(); ++row) {
    const double even_share = 1.0 / static_cast<double>(edges.degree(row));
    for (std::size_t e = edges.begin(row); e < edges.begin(row + 1); ++e) {
      const double share = edges.has_weights ? edges.shares[e] : even_share;
      scores[edges.source(e)] += share * share;
    }
  }
  return scores;
}

// The c with sum of min(1, c q_t) = size. With the sources of c * q_t > 1 at 1 the equation is linear in c; its
// solution grows as sources go to 1, so they are found in a few sweeps.
double solve_scale(const Buffer<double>& scores, std::uint64_t size) {
  double scale = 0.0;
  for (std::size_t below_one = scores.size() + 1;;) {
    const auto mass = ordered_sum<Mass>(
        scores.size(), [&](std::size_t t) { return scale * scores[t] <= 1.0 ? Mass{scores[t], 1} : Mass{}; });
    if (mass.count == below_one) return scale;
    below_one = mass.count;
    const auto at_one = static_cast<double>(scores.size() - mass.count);
    scale = std::max(scale, (static_cast<double>(size) - at_one) / mass.score);
  }
}

void draw_poisson(const std::uint64_t* variates, std::uint64_t size, LadiesDraw& draw) {
  const double scale = solve_scale(draw.scores, size);
  for (std::size_t t = 0; t < draw.scores.size(); ++t) {
    const double probability = std::min(1.0, scale * draw.scores[t]);
    draw.drawn[t] = unit_interval(variates[t]) <= probability;
    draw.inverse[t] = 1.0 / probability;
  }
}

void draw_race(const std::uint64_t* variates, std::uint64_t size, LadiesDraw& draw) {
  const std::size_t num_candidates = draw.scores.size();
  Buffer<std::uint64_t> times(num_candidates);
  for (std::size_t t = 0; t < num_candidates; ++t) {
    times[t] = ordered_bits(negative_log(unit_interval(variates[t])) / draw.scores[t]);
  }
  Buffer<std::uint64_t> order(num_candidates);
  std::copy_n(times.data(), num_candidates, order.data());
  std::nth_element(order.data(), order.data() + size, order.data() + num_candidates);
  const std::uint64_t tau = order[size];
  // Who arrives at tau itself ties with the first that is not drawn: of these the first candidates are.
  const auto before = static_cast<std::uint64_t>(
      std::count_if(times.data(), times.data() + num_candidates, [=](std::uint64_t time) { return time < tau; }));
  std::uint64_t ties = size - before;
  for (std::size_t t = 0; t < num_candidates; ++t) {
    const bool tied = times[t] == tau && ties > 0;
    if (tied) --ties;
    draw.drawn[t] = tied || times[t] < tau;
    draw.inverse[t] = 1.0 / one_minus_exp(draw.scores[t] * from_ordered_bits(tau));
  }
}

}  // namespace

template <class Index>
LadiesDraw draw_ladies(const LayerEdges<Index>& edges, std::uint64_t size, bool poisson, std::uint64_t key) {
  const std::size_t num_candidates = edges.num_candidates();
  LadiesDraw draw;
  draw.scores = add_scores(edges);
  draw.inverse.resize(num_candidates);
  draw.drawn.resize(num_candidates);
  if (num_candidates <= size) {
    std::fill_n(draw.inverse.data(), num_candidates, 1.0);
    std::fill_n(draw.drawn.data(), num_candidates, true);
    return draw;
  }
  Buffer<std::uint64_t> variates(num_candidates);
  labor_variates(key, edges.candidates.data(), num_candidates, variates.data());
  if (poisson) {
    draw_poisson(variates.data(), size, draw);
  } else {
    draw_race(variates.data(), size, draw);
  }
  return draw;
}

template LadiesDraw draw_ladies<std::int32_t>(const LayerEdges<std::int32_t>&, std::uint64_t, bool, std::uint64_t);
template LadiesDraw draw_ladies<std::int64_t>(const LayerEdges<std::int64_t>&, std::uint64_t, bool, std::uint64_t);

}  // namespace headrace
