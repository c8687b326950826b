// LABOR-i and LABOR-* (arXiv 2210.13339): probabilities pi_t of sources that all destinations of a hop agree on, so
// that fewer distinct sources are picked while each destination keeps the variance that LABOR-0 gives it.
//
// Edge t -> s is kept iff r_t <= min(1, c_s pi_t). c_s solves the variance equation of s,
//
//     sum_t P_ts^2 / min(1, c_s pi_t) - sum_t P_ts^2 = 1 / fanout - 1 / d_s,   P_ts = A_ts / A_*s (1 / d_s unweighted),
//
// and where d_s <= fanout all edges are kept (c_s is infinite). Round 0 takes pi_ts = 1 (unweighted) or P_ts, which is
// LABOR-0. Each further round sets pi_t <- max_s min(1, c_s pi_t) and solves again; the expected number of distinct
// sources, sum_t max_s min(1, c_s pi_t), never grows. Of parallel edges (parallel_edges.hpp) each is kept on its own,
// as the equation has it; that number then counts sources by the first of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/buffer.hpp"
#include "layerwise/layer_edges.hpp"
#include "layerwise/layer_reducer.hpp"

namespace headrace {

struct LaborImportance {
  Buffer<double> inverse;              // [num_candidates] 1 / pi_t, from 1 on
  Buffer<double> scales;               // [num_dst] c_s
  std::vector<double> expected_sizes;  // E|T| of LABOR-0, LABOR-1, ..., up to the rule's own; or nothing
};

// `rounds` of at least 1, or Rule::kUntilConverged: until a round gains no more than 1 part in 10,000 of E|T|. Without
// `want_sizes` nobody asks for expected_sizes; a fixed number of rounds then saves the last look at the edges.
//
// With a reducer `edges` are of a part of the hop, and what is found for it is what would be found for the whole: the
// largest c_s of a source is that of all parts, and so is E|T|, a sum that does not depend on who adds.
template <class Index>
LaborImportance solve_labor_importance(const LayerEdges<Index>& edges, std::uint64_t fanout, std::int64_t rounds,
                                       bool want_sizes, int num_threads, LayerReducer* reducer = nullptr);

}  // namespace headrace
