// From the decisions of a layer-wise rule to a hop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/parallel.hpp"
#include "layerwise/layer_edges.hpp"
#include "layerwise/layer_reducer.hpp"
#include "layerwise/ordered_sum.hpp"

namespace headrace {

// Keep edge e of row i iff keeps(i, e); `inverse(i, e)` is then 1 / the probability of that. A kept edge's weight is
// P_ts / probability, scaled so that the weights of a row average to 1 (Hajek). Edges stay in CSC order.
template <class Index, class Keeps, class Inverse>
Hop<Index> keep_edges(const HopGraph<Index>& graph, const LayerEdges<Index>& edges, const Keeps& keeps,
                      const Inverse& inverse, int num_threads) {
  const std::size_t num_dst = edges.num_dst();
  const std::size_t num_tasks = (num_dst + kLayerRowsPerTask - 1) / kLayerRowsPerTask;
  num_threads = threads_for(num_threads, kLayerEdgeNanoseconds * static_cast<double>(edges.sources.size()));
  const auto for_rows = [&](const auto& body) {
    parallel_for(num_threads, num_tasks, [&](std::size_t task) {
      const std::size_t end = part_bound(num_dst, num_tasks, task + 1);
      for (std::size_t i = part_bound(num_dst, num_tasks, task); i < end; ++i) body(i);
    });
  };
  Hop<Index> hop;
  hop.has_weights = true;
  hop.indptr.resize(num_dst + 1);
  hop.indptr[0] = 0;
  for_rows([&](std::size_t i) {
    std::int64_t count = 0;
    for (std::size_t e = edges.begin(i); e < edges.begin(i + 1); ++e) count += keeps(i, e) ? 1 : 0;
    hop.indptr[i + 1] = count;
  });
  for (std::size_t i = 0; i < num_dst; ++i) hop.indptr[i + 1] += hop.indptr[i];
  const auto num_kept = static_cast<std::size_t>(hop.indptr[num_dst]);
  hop.neighbors.resize(num_kept);
  hop.edges.resize(num_kept);
  hop.weights.resize(num_kept);
  for_rows([&](std::size_t i) {
    const auto first = static_cast<std::size_t>(hop.indptr[i]);
    const std::size_t count = static_cast<std::size_t>(hop.indptr[i + 1]) - first;
    std::int64_t* const kept = hop.edges.data() + first;  // numbers of edges, then their ids
    std::size_t size = 0;
    for (std::size_t e = edges.begin(i); size < count; ++e) {
      kept[size] = static_cast<std::int64_t>(e);  // no branch: the next one takes its place unless it is kept
      size += keeps(i, e) ? 1 : 0;
    }
    const auto value = [&](std::size_t k) {
      const auto e = static_cast<std::size_t>(kept[k]);
      return edges.has_weights ? edges.shares[e] * inverse(i, e) : inverse(i, e);
    };
    const auto sum = ordered_sum<double>(count, value);
    for (std::size_t k = 0; k < count; ++k) {
      const auto e = static_cast<std::size_t>(kept[k]);
      hop.weights[first + k] = static_cast<float>(value(k) * static_cast<double>(count) / sum);
      hop.neighbors[first + k] = static_cast<Index>(edges.candidates[edges.source(e)]);
      const std::int64_t position = edges.position(i, e);
      kept[k] = graph.edge_ids.is_position() ? position : graph.edge_ids[position];
    }
  });
  return hop;
}

// The samplers that look at all rows at once (Rule::is_layer_wise).
template <class Index>
void sample_labor_importance(const HopCall<Index>& call);

// LADIES and PLADIES.
template <class Index>
void sample_ladies(const HopCall<Index>& call);

}  // namespace headrace
