// LADIES (Zou et al., arXiv 1911.07323) and PLADIES, its Poisson form (arXiv 2210.13339): draw sources for the whole
// layer, by scores q_t = sum_s P_ts^2 over the destinations s, and keep all edges between them and the destinations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "layerwise/layer_edges.hpp"
#include "layerwise/layer_reducer.hpp"

namespace headrace {

struct LadiesDraw {
  Buffer<double> scores;   // [num_candidates] q_t
  Buffer<double> inverse;  // [num_candidates] 1 / the probability of being drawn; infinite where that is 0
  Buffer<bool> drawn;      // [num_candidates]
};

// `size` sources are drawn, all where there are no more.
//
// Poisson: each source on its own with pi_t = min(1, c q_t), where c makes the sum of pi_t equal `size`.
// Otherwise: exactly `size`, one after the other by q_t, without replacement, as the first ones of an exponential race
// -ln(r_t) / q_t. Such a draw has no closed inclusion probabilities; but given tau, the time of the first one that is
// *not* drawn, each of the drawn had probability 1 - exp(-q_t tau), and dividing by that gives exactly unbiased sums
// (rank conditioning; Cohen and Kaplan, "Summarizing data using bottom-k sketches", PODC 2007).
//
// Scores and their sums do not depend on the order of their terms (FixedSum), none of which is 0; and of sources that
// arrive at the same time the one of the smaller id is first. So parts of a hop that share a reducer draw what the
// whole hop would.
//
// Without `want_all`, `inverse` tells the truth about drawn sources alone, which takes less time.
template <class Index>
LadiesDraw draw_ladies(const LayerEdges<Index>& edges, std::uint64_t size, bool poisson, std::uint64_t key,
                       bool want_all, LayerReducer* reducer = nullptr);

}  // namespace headrace
