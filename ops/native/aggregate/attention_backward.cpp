#include <algorithm>

#include "aggregate/attention.hpp"
#include "aggregate/attention_segment.hpp"
#include "aggregate/row_sums.hpp"

namespace headrace {
namespace {

// What a destination's edges have in common, for all heads: one array [4, heads] a destination, so that an edge that
// comes from elsewhere finds it all in one place.
enum CentrePart : std::size_t { kScore, kLargest, kOverSum, kShare, kCentreParts };

template <class Value>
HEADRACE_INLINE void fill_centre(const AttentionScores<Value>& scores, const AttentionGradients<Value>& gradients,
                                 std::size_t destination, Value* centre) {
  const std::size_t heads = scores.heads;
  const std::size_t head_width = gradients.width / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t at = destination * heads + h;
    const std::size_t row = destination * gradients.width + h * head_width;
    const Value sum = gradients.sums[at];
    centre[kScore * heads + h] = scores.destination[at];
    centre[kLargest * heads + h] = gradients.largest[at];
    centre[kOverSum * heads + h] = sum == 0 ? Value{0} : Value{1} / sum;
    centre[kShare * heads + h] = dot(gradients.gradients + row, gradients.out + row, head_width);
  }
}

// attention[k] of one head, of plain scores. `largest` and `over_sum` are of destinations: all the same, or one by one.
template <class Value, class Index, class Largest, class OverSum>
HEADRACE_INLINE void attention_of(const AttentionScores<Value>& scores, const SegmentEdges<Index>& edges,
                                  const Value* plain, const Largest& largest, const OverSum& over_sum,
                                  Value* attention) {
  Value score[kSegment];
  Value exps[kSegment];
  for (std::size_t k = 0; k < edges.count; ++k) score[k] = plain[k] * leak(plain[k], scores.slope);
  exponentials(scores, edges, score, largest, exps);
  for (std::size_t k = 0; k < edges.count; ++k) attention[k] = exps[k] * over_sum[k];
}

// The gradients of the scores of one head, of products behind dropout.
template <class Value, class Index, class Share>
HEADRACE_INLINE void score_gradients(const AttentionScores<Value>& scores, const SegmentEdges<Index>& edges,
                                     const Value* plain, const Value* attention, const Share& share,
                                     Value* __restrict products) {
  for (std::size_t k = 0; k < edges.count; ++k) {
    products[k] = score_gradient(plain[k], scores.slope, attention[k], products[k], share[k]);
  }
}

enum SegmentArray : std::size_t { kPlain, kAttention, kProduct, kSegmentArrays };

template <class Value, class Index>
struct DestinationBody {
  const EdgeRows<Index>& rows;
  AttentionScores<Value> scores;
  AttentionGradients<Value> gradients;
  SegmentArrays<Value> arrays;
  Buffer<Value> centre;
  SegmentEdges<Index> edges;

  HEADRACE_INLINE std::size_t other_bytes() const { return gradients.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    const std::size_t source = rows.other(edge);
    prefetch_row(gradients.x + source * gradients.width, other_bytes());
    prefetch_row(scores.source + source * scores.heads, scores.heads * sizeof(Value));
  }

  HEADRACE_INLINE void start(std::size_t row) { fill_centre(scores, gradients, row, centre.data()); }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) {
    const std::size_t heads = scores.heads;
    const std::size_t head_width = gradients.width / heads;
    edges.read(rows, first, last);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = h * kSegment;
      Value* const plain = arrays[kPlain] + at;
      const Value score = centre[kScore * heads + h];
      for (std::size_t k = 0; k < edges.count; ++k) plain[k] = scores.source[edges.others[k] * heads + h] + score;
      add_edge_scores(scores, edges, h, plain);
      attention_of(scores, edges, plain, Same<Value>{centre[kLargest * heads + h]},
                   Same<Value>{centre[kOverSum * heads + h]}, arrays[kAttention] + at);
    }
    const Value* const gradient = gradients.gradients + row * gradients.width;
    for (std::size_t k = 0; k < edges.count; ++k) {
      const Value* const x = gradients.x + edges.others[k] * gradients.width;
      for (std::size_t h = 0; h < heads; ++h) {
        arrays[kProduct][h * kSegment + k] = dot(gradient + h * head_width, x + h * head_width, head_width);
      }
    }
    drop(scores, edges, arrays[kProduct]);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t at = h * kSegment;
      Value* const by_score = arrays[kProduct] + at;
      score_gradients(scores, edges, arrays[kPlain] + at, arrays[kAttention] + at,
                      Same<Value>{centre[kShare * heads + h]}, by_score);
      Value sum = gradients.by_destination[row * heads + h];
      for (std::size_t k = 0; k < edges.count; ++k) sum = sum + by_score[k];
      gradients.by_destination[row * heads + h] = sum;
      if (gradients.by_edge == nullptr) continue;
      for (std::size_t k = 0; k < edges.count; ++k) gradients.by_edge[edges.positions[k] * heads + h] = by_score[k];
    }
  }

  HEADRACE_INLINE void finish(std::size_t) const {}
};

template <class Value, class Index>
struct SourceBody {
  const EdgeRows<Index>& rows;
  AttentionScores<Value> scores;
  AttentionGradients<Value> gradients;
  const Value* centres;  // [destinations, kCentreParts, heads]
  SegmentArrays<Value> arrays;
  SegmentEdges<Index> edges;
  Buffer<Value> own;  // the row of x, where its gradient is written over it
  const Value* others[kSegment];

  HEADRACE_INLINE std::size_t other_bytes() const { return gradients.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    const std::size_t destination = rows.other(edge);
    prefetch_row(gradients.gradients + destination * gradients.width, other_bytes());
    prefetch_row(centres + destination * kCentreParts * scores.heads, kCentreParts * scores.heads * sizeof(Value));
  }

  HEADRACE_INLINE void start(std::size_t row) {
    if (own.size() == 0) return;
    Value* const x = gradients.by_x + row * gradients.width;
    std::copy_n(x, gradients.width, own.data());
    std::fill_n(x, gradients.width, Value{0});
  }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) {
    const std::size_t heads = scores.heads;
    const std::size_t head_width = gradients.width / heads;
    edges.read(rows, first, last);
    const Value* const x = own.size() == 0 ? gradients.x + row * gradients.width : own.data();
    for (std::size_t k = 0; k < edges.count; ++k) {
      others[k] = gradients.gradients + edges.others[k] * gradients.width;
      for (std::size_t h = 0; h < heads; ++h) {
        arrays[kProduct][h * kSegment + k] = dot(others[k] + h * head_width, x + h * head_width, head_width);
      }
    }
    drop(scores, edges, arrays[kProduct]);
    for (std::size_t h = 0; h < heads; ++h) add_head(row, h);
    drop(scores, edges, arrays[kAttention]);
    add_scaled_rows(gradients.by_x + row * gradients.width, others, arrays[kAttention], kSegment, edges.count, heads,
                    head_width);
  }

  HEADRACE_INLINE void finish(std::size_t) const {}

 private:
  HEADRACE_INLINE void add_head(std::size_t row, std::size_t head) {
    const std::size_t heads = scores.heads;
    const std::size_t at = head * kSegment;
    Value* const plain = arrays[kPlain] + at;
    Value* const attention = arrays[kAttention] + at;
    Value* const by_score = arrays[kProduct] + at;
    Value largest[kSegment];
    Value over_sum[kSegment];
    Value share[kSegment];
    const Value score = scores.source[row * heads + head];
    for (std::size_t k = 0; k < edges.count; ++k) {
      const Value* const centre = centres + edges.others[k] * kCentreParts * heads + head;
      plain[k] = score + centre[kScore * heads];
      largest[k] = centre[kLargest * heads];
      over_sum[k] = centre[kOverSum * heads];
      share[k] = centre[kShare * heads];
    }
    add_edge_scores(scores, edges, head, plain);
    attention_of(scores, edges, plain, largest, over_sum, attention);
    score_gradients(scores, edges, plain, attention, share, by_score);
    Value sum = gradients.by_source[row * heads + head];
    for (std::size_t k = 0; k < edges.count; ++k) sum = sum + by_score[k];
    gradients.by_source[row * heads + head] = sum;
  }
};

}  // namespace

template <class Value, class Index>
void attend_backward_destinations(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores,
                                  const AttentionGradients<Value>& gradients, int num_threads) {
  check_edge_rows("attend_backward_destinations", rows, num_threads);
  const std::size_t heads = scores.heads;
  if (heads == 0) return;
  for_each_row(rows, edge_nanoseconds((gradients.width + 8 * heads) * sizeof(Value)), num_threads, [&] {
    return DestinationBody<Value, Index>{
        rows, scores, gradients, SegmentArrays<Value>(kSegmentArrays, heads), Buffer<Value>(kCentreParts * heads), {}};
  });
}

template <class Value, class Index>
void attend_backward_sources(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores,
                             const AttentionGradients<Value>& gradients, int num_threads) {
  check_edge_rows("attend_backward_sources", rows, num_threads);
  const std::size_t heads = scores.heads;
  if (heads == 0) return;
  const std::size_t centre_size = kCentreParts * heads;
  Buffer<Value> centres(rows.num_others * centre_size);
  const double nanoseconds = edge_nanoseconds(2 * gradients.width * sizeof(Value));
  parallel_for_each(threads_for(num_threads, nanoseconds * static_cast<double>(rows.num_others)), rows.num_others,
                    [&](std::size_t i) { fill_centre(scores, gradients, i, centres.data() + i * centre_size); });
  for_each_row(rows, edge_nanoseconds((2 * gradients.width + 8 * heads) * sizeof(Value)), num_threads, [&] {
    return SourceBody<Value, Index>{rows,
                                    scores,
                                    gradients,
                                    centres.data(),
                                    SegmentArrays<Value>(kSegmentArrays, heads),
                                    {},
                                    Buffer<Value>(gradients.by_x == gradients.x ? gradients.width : 0),
                                    {}};
  });
}

#define HEADRACE_INSTANTIATE(Value, Index)                                                                        \
  template void attend_backward_destinations<Value, Index>(const EdgeRows<Index>&, const AttentionScores<Value>&, \
                                                           const AttentionGradients<Value>&, int);                \
  template void attend_backward_sources<Value, Index>(const EdgeRows<Index>&, const AttentionScores<Value>&,      \
                                                      const AttentionGradients<Value>&, int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
