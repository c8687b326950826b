// One hop of a graph with types: each relation by a rule of its own, over rows of its own.
#pragma once

#include <cstddef>
#include <vector>

#include "random/variate_keys.hpp"
#include "sampling/hop.hpp"
#include "sampling/relations.hpp"
#include "sampling/rule.hpp"

namespace headrace {

// As HopCall, but `graph.csc` has a row for each node and relation, and the frontier holds nodes. Draws of a
// destination are keyed by its row, LABOR's variates by their sources, so that relations share them.
template <class Index>
struct TypedHopCall {
  const HopGraph<Index>& graph;
  const std::vector<Relation>& relations;  // checked
  Frontier frontier;
  const std::vector<Rule>& rules;  // one for each relation
  VariateKeys keys;
  int num_threads;
  HopSink<Index>& sink;
  LayerReducer* reducer = nullptr;
};

// Picks of a destination come relation by relation, in their order.
template <class Index>
void sample_typed_hop(const TypedHopCall<Index>& call);

}  // namespace headrace
