// Numbers of destinations, sent to the sources of their in-edges: against the direction of messages. Sources get theirs
// in the order in which destinations are visited, so the sums are the same bits for any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

// sums[u] is the sum of values[v] over the edges u -> v. Throws InputError for rows and ids of no graph.
template <class Index>
void sum_to_sources(const CscView<Index>& graph, const double* values, double* sums, int num_threads);

// How likely it is that a hop reaches each source: reached[u] = 1 - the product of 1 - frontier[v] * pick over the
// edges u -> v. An edge is picked, once its destination is there, with edge_picks[edge], or with row_picks[v] where
// these are null.
template <class Index>
void reach_sources(const CscView<Index>& graph, const double* frontier, const double* row_picks,
                   const float* edge_picks, double* reached, int num_threads);

// The same where destinations share one variate per source, which is picked by those whose row_picks[v] is not below
// it: reached[u] is the expected maximum of row_picks[v] over the destinations that are there. `order` holds the
// num_nodes destinations by falling row_picks.
template <class Index>
void reach_sources_together(const CscView<Index>& graph, const double* frontier, const double* row_picks,
                            const std::int64_t* order, double* reached, int num_threads);

}  // namespace headrace
