#include "layerwise/ladies.hpp"

#include <algorithm>
#include <vector>

#include "core/fixed_sum.hpp"
#include "core/ordered_bits.hpp"
#include "core/prefetch.hpp"
#include "random/labor_variates.hpp"
#include "random/unit_interval.hpp"

namespace headrace {
namespace {

template <class Index>
Buffer<FixedSum> add_scores(const LayerEdges<Index>& edges, const LayerPart& part) {
  Buffer<FixedSum> sums(edges.num_candidates());
  std::fill_n(sums.data(), sums.size(), FixedSum());
  const Index* const sources = edges.sources.data();
  const std::size_t prefetched = edges.sources.size() - std::min(edges.sources.size(), kFarPrefetchDistance);
  for (std::size_t row = 0; row < edges.num_dst(); ++row) {
    const FixedSum even = FixedSum::square_of(1.0 / static_cast<double>(edges.degree(row)));
    for (std::size_t e = edges.begin(row); e < edges.begin(row + 1); ++e) {
      if (e < prefetched) prefetch_far(sums.data() + sources[e + kFarPrefetchDistance]);
      sums[edges.source(e)] += edges.has_weights ? FixedSum::square_of(edges.shares[e]) : even;
    }
  }
  if (part.is_whole()) return sums;
  constexpr std::size_t kWidth = FixedSum::kLimbs;
  Buffer<std::int64_t> limbs(sums.size() * kWidth);
  for (std::size_t t = 0; t < sums.size(); ++t) sums[t].write_limbs(limbs.data() + t * kWidth);
  part.reducer().sums(limbs.data(), kWidth);
  for (std::size_t t = 0; t < sums.size(); ++t) sums[t] = FixedSum::from_limbs(limbs.data() + t * kWidth);
  return sums;
}

// The c with sum of min(1, c q_t) = size, of `num_all` sources in all parts. With the sources of c * q_t > 1 at 1 the
// equation is linear in c; its solution grows as sources go to 1, so they are found in a few sweeps.
double solve_scale(const Buffer<FixedSum>& sums, const Buffer<double>& scores, std::uint64_t size,
                   std::uint64_t num_all, const LayerPart& part) {
  double scale = 0.0;
  for (std::uint64_t before = num_all + 1;;) {
    Tally below_one;  // the sources with c * q_t <= 1
    for (std::size_t t = 0; t < scores.size(); ++t) {
      if (part.counts(t) && scale * scores[t] <= 1.0) {
        below_one.sum += sums[t];
        ++below_one.count;
      }
    }
    below_one = part.total(below_one);
    if (below_one.count == before) return scale;
    before = below_one.count;
    const auto at_one = static_cast<double>(num_all - below_one.count);
    scale = std::max(scale, (static_cast<double>(size) - at_one) / below_one.sum.value());
  }
}

void draw_poisson(const std::uint64_t* variates, double scale, LadiesDraw& draw) {
  for (std::size_t t = 0; t < draw.scores.size(); ++t) {
    const double probability = std::min(1.0, scale * draw.scores[t]);
    draw.drawn[t] = unit_interval(variates[t]) <= probability;
    draw.inverse[t] = 1.0 / probability;
  }
}

// When a source arrives, as ordered_bits; of equal times the smaller id is first.
struct Arrival {
  std::uint64_t time;
  std::int64_t node;

  bool operator<(const Arrival& other) const { return time < other.time || (time == other.time && node < other.node); }
};

// The arrival behind the first `size`, of which there are more.
Arrival first_left_out(const std::uint64_t* times, const std::int64_t* nodes, std::size_t count, std::size_t size) {
  Buffer<std::uint64_t> order(count);
  std::copy_n(times, count, order.data());
  std::nth_element(order.data(), order.data() + size, order.data() + count);
  const std::uint64_t tau = order[size];
  std::size_t before = 0;
  std::vector<std::int64_t> tied;
  for (std::size_t t = 0; t < count; ++t) {
    before += times[t] < tau ? 1 : 0;
    if (times[t] == tau) tied.push_back(nodes[t]);
  }
  const auto limit = tied.begin() + static_cast<std::ptrdiff_t>(size - before);
  std::nth_element(tied.begin(), limit, tied.end());
  return {tau, *limit};
}

// The same among the arrivals of all parts. No part has more than the first size + 1 of its own among them.
Arrival first_left_out(const std::uint64_t* times, const Buffer<std::int64_t>& nodes, std::size_t size,
                       const LayerPart& part) {
  std::vector<Arrival> own;
  for (std::size_t t = 0; t < nodes.size(); ++t) {
    if (part.counts(t)) own.push_back({times[t], nodes[t]});
  }
  if (own.size() > size + 1) {
    const auto end = own.begin() + static_cast<std::ptrdiff_t>(size + 1);
    std::nth_element(own.begin(), end, own.end());
    own.erase(end, own.end());
  }
  Buffer<std::int64_t> words;
  words.ensure_spare(2 * own.size());
  for (const Arrival& arrival : own) {
    words.push_back(static_cast<std::int64_t>(arrival.time));
    words.push_back(arrival.node);
  }
  words = part.reducer().gather(words);
  const std::size_t count = words.size() / 2;
  if (count <= size) throw InputError("reducer.gather returned less than all parts gave");
  Buffer<std::uint64_t> all_times(count);
  Buffer<std::int64_t> all_nodes(count);
  for (std::size_t i = 0; i < count; ++i) {
    all_times[i] = static_cast<std::uint64_t>(words[2 * i]);
    all_nodes[i] = words[2 * i + 1];
  }
  return first_left_out(all_times.data(), all_nodes.data(), count, size);
}

void draw_race(const std::uint64_t* variates, const Buffer<std::int64_t>& nodes, std::size_t size, bool want_all,
               const LayerPart& part, LadiesDraw& draw) {
  const std::size_t num_candidates = nodes.size();
  Buffer<std::uint64_t> times(num_candidates);
  for (std::size_t t = 0; t < num_candidates; ++t) {
    times[t] = ordered_bits(negative_log(unit_interval(variates[t])) / draw.scores[t]);
  }
  const Arrival limit = part.is_whole() ? first_left_out(times.data(), nodes.data(), num_candidates, size)
                                        : first_left_out(times.data(), nodes, size, part);
  for (std::size_t t = 0; t < num_candidates; ++t) {
    draw.drawn[t] = times[t] < limit.time || (times[t] == limit.time && nodes[t] < limit.node);
    draw.inverse[t] =
        want_all || draw.drawn[t] ? 1.0 / one_minus_exp(draw.scores[t] * from_ordered_bits(limit.time)) : 0.0;
  }
}

}  // namespace

template <class Index>
LadiesDraw draw_ladies(const LayerEdges<Index>& edges, std::uint64_t size, bool poisson, std::uint64_t key,
                       bool want_all, LayerReducer* reducer) {
  const std::size_t num_candidates = edges.num_candidates();
  LayerPart part(reducer, edges.candidates);
  part.count();
  Tally all;
  for (std::size_t t = 0; t < num_candidates; ++t) all.count += part.counts(t) ? 1 : 0;
  const std::uint64_t num_all = part.total(all).count;
  const Buffer<FixedSum> sums = add_scores(edges, part);
  LadiesDraw draw;
  draw.scores.resize(num_candidates);
  for (std::size_t t = 0; t < num_candidates; ++t) draw.scores[t] = sums[t].value();
  draw.inverse.resize(num_candidates);
  draw.drawn.resize(num_candidates);
  if (num_all <= size) {
    std::fill_n(draw.inverse.data(), num_candidates, 1.0);
    std::fill_n(draw.drawn.data(), num_candidates, true);
    return draw;
  }
  Buffer<std::uint64_t> variates(num_candidates);
  labor_variates(key, edges.candidates.data(), num_candidates, variates.data());
  if (poisson) {
    draw_poisson(variates.data(), solve_scale(sums, draw.scores, size, num_all, part), draw);
  } else {
    draw_race(variates.data(), edges.candidates, static_cast<std::size_t>(size), want_all, part, draw);
  }
  return draw;
}

template LadiesDraw draw_ladies<std::int32_t>(const LayerEdges<std::int32_t>&, std::uint64_t, bool, std::uint64_t, bool,
                                              LayerReducer*);
template LadiesDraw draw_ladies<std::int64_t>(const LayerEdges<std::int64_t>&, std::uint64_t, bool, std::uint64_t, bool,
                                              LayerReducer*);

}  // namespace headrace
