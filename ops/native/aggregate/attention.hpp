// Attention over the in-edges of each row as in GAT (arXiv 1710.10903): scores, their softmax and the weighted sum in
// one pass over the edges, without an array of edges times heads. As in SAR (arXiv 2111.06483) a row may come in parts:
// the largest score, the sum of exponentials and the sum of rows are carried on (online softmax).
#pragma once

#include <cstddef>
#include <cstdint>

#include "aggregate/edge_rows.hpp"

namespace headrace {

// What scores and attention depend on. An edge from j to i has the score s = leaky_relu(source[j] + destination[i] +
// edge[e]) and the attention weights[e] * exp(s) over the sum of these of all edges to i. Of it dropout keeps what word
// h of the edge's stream says, times `kept_scale`. An edge of score -inf, or of weight 0, does not count.
template <class Value>
struct AttentionScores {
  std::size_t heads;
  const Value* source;       // [sources, heads]
  const Value* destination;  // [destinations, heads]
  const Value* edge;         // [num_positions, heads], or null
  const Value* weights;      // [num_positions], or null: 1
  Value slope;
  std::uint64_t key;             // of dropout
  std::uint64_t threshold;       // of 2^32 words so many are dropped
  Value kept_scale;              // what the others are multiplied by
  const std::int64_t* edge_ids;  // [num_positions]: what streams go by; null: positions
};

template <class Value>
struct AttentionState {
  Value* largest;  // [destinations, heads]: the largest score so far, -inf: none
  Value* sums;     // [destinations, heads]: of weights[e] * exp(s - largest)
  Value* out;      // [destinations, width]: of the same times rows of x
  const Value* x;  // [sources, width]
  std::size_t width;
  bool fresh;  // what the state holds does not count
  bool last;   // divide by the sums in the end; rows without edges become 0
};

// Rows are destinations.
template <class Value, class Index>
void attend(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores, const AttentionState<Value>& state,
            int num_threads);

template <class Value>
struct AttentionGradients {
  const Value* largest;  // the state behind the last part
  const Value* sums;
  const Value* x;          // [sources, width]
  const Value* out;        // [destinations, width]
  const Value* gradients;  // [destinations, width]: those of `out`
  std::size_t width;
  Value* by_destination;  // [destinations, heads]: added to
  Value* by_edge;         // [num_positions, heads]: written, or null
  Value* by_source;       // [sources, heads]: added to
  Value* by_x;            // [sources, width]: added to; or x itself, which is overwritten
};

// Gradients of the scores of destinations and edges. Rows are destinations.
template <class Value, class Index>
void attend_backward_destinations(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores,
                                  const AttentionGradients<Value>& gradients, int num_threads);

// Gradients of the scores of sources and of x. Rows are sources: those of the transposed block.
template <class Value, class Index>
void attend_backward_sources(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores,
                             const AttentionGradients<Value>& gradients, int num_threads);

}  // namespace headrace
