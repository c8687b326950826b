// Twin of ops/native/aggregate/attention_backward.cpp: attention is computed anew, and so are the gradients of scores.

#include <cstdint>

#include "attention.cuh"

namespace headrace {

// What a destination's edges have in common, for all heads: one array [4, heads] a destination, so that an edge that
// comes from elsewhere finds it all in one place.
enum CentrePart : int { kScore, kLargest, kOverSum, kShare, kCentreParts };

template <class Value>
__global__ void attention_centres(std::int64_t num_destinations, std::int64_t heads, const Value* destination,
                                  const Value* largest, const Value* sums, const Value* out, const Value* gradients,
                                  std::int64_t width, Value* centres) {
  const std::int64_t head_width = width / heads;
  for_each_dot(num_destinations * heads, [&](std::int64_t i, bool is_one) {
    const std::int64_t at = is_one ? i * head_width : 0;  // heads stand side by side in rows
    const Value share = dot(gradients + at, out + at, is_one ? head_width : 0);
    if (!is_one || !writes_dot()) return;
    Value* const centre = centres + i / heads * kCentreParts * heads + i % heads;
    centre[kScore * heads] = destination[i];
    centre[kLargest * heads] = largest[i];
    centre[kOverSum * heads] = sums[i] == 0 ? Value{0} : Value{1} / sums[i];
    centre[kShare * heads] = share;
  });
}

// The gradients of the scores of an edge. terms[h][lane] are dot products, and become these; factors[h][lane] become
// what dropout leaves of attention. `centre` is that of the edge's destination, `source` are the scores of its source.
template <class Value>
void differentiate(const AttentionScores<Value>& scores, const LaneEdge& edge, const RowHeads& of, const Value* source,
                   const Value* centre, int lane, Segment<Value>& segment) {
  const Dropout<Value> dropout(scores, edge.position, of.first);
  for (int h = 0; h < of.count; ++h) {
    const std::int64_t head = of.first + h;
    const auto part = [&](CentrePart which) { return centre[which * scores.heads + head]; };
    const Value plain = plain_score(scores, source[head] + part(kScore), edge.position, head);
    const Value score = plain * leak(plain, scores.slope);
    const Value attention = weighted_exponential(scores, score, part(kLargest), edge.position) * part(kOverSum);
    Value& term = segment.terms[h][lane];
    term = score_gradient(plain, scores.slope, attention, dropout.of(term, h), part(kShare));
    segment.factors[h][lane] = dropout.of(attention, h);
  }
}

// Rows are destinations, `own` are their gradients and `others` is x: gradients of the scores of destinations and, at
// positions, of edges, if there is `by_edge`. With `by_x` rows are sources, those of the transposed block, `own` is x
// and `others` are gradients of destinations: gradients of the scores of sources and of x.
template <class Value, class Index>
__global__ void attend_backward(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices,
                                const Index* positions, std::int64_t heads, const Value* source,
                                const Value* edge_scores, const Value* weights, double slope, std::uint64_t key,
                                std::uint64_t threshold, double kept_scale, const std::int64_t* edge_ids,
                                const Value* centres, const Value* own, const Value* others, std::int64_t width,
                                Value* by_score, Value* by_edge, Value* by_x) {
  __shared__ Segment<Value> segments[WarpGroup::kPerBlock];
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const AttentionScores<Value> scores{
      heads, edge_scores, weights, static_cast<Value>(slope), key, threshold, static_cast<Value>(kept_scale), edge_ids};
  const std::int64_t head_width = width / heads;
  const bool to_sources = by_x != nullptr;
  const WarpGroup group;
  Segment<Value>& segment = segments[group.in_block];
  for_each_row_heads(num_rows, heads, group, [&](const RowHeads& of) {
    const bool sums_up = group.rank < of.count;  // lane h sums up head h
    Value* const total = by_score + of.row * heads + of.first + group.rank;
    Value sum = sums_up ? *total : Value{0};
    for_each_segment(rows, of.row, group, [&](const LaneEdge& edge, int count) {
      segment.rows[group.rank] = edge.other * width;
      group.sync();
      dot_rows(group, segment, count, of, head_width, own + of.row * width, others);
      group.sync();
      if (edge.is_one) {
        const Value* const scores_of_source = source + (to_sources ? of.row : edge.other) * heads;
        const Value* const centre = centres + (to_sources ? edge.other : of.row) * kCentreParts * heads;
        differentiate(scores, edge, of, scores_of_source, centre, group.rank, segment);
        for (int h = 0; by_edge != nullptr && h < of.count; ++h) {
          by_edge[edge.position * heads + of.first + h] = segment.terms[h][group.rank];
        }
      }
      group.sync();
      if (sums_up) sum = add_terms(sum, segment.terms[group.rank], count);
      if (to_sources) add_scaled_rows(group, segment, count, of, head_width, width, others, by_x, false);
      group.sync();  // before the next segment is written
    });
    if (sums_up) *total = sum;
  });
}

}  // namespace headrace
