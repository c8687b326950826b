// What the directions of attention share: scores, exponentials and dropout of a segment of edges. Arrays of a segment
// are [heads, kSegment], so that loops are over edges and heads may be few.
#pragma once

#include "aggregate/attention.hpp"
#include "aggregate/attention_terms.hpp"
#include "core/buffer.hpp"
#include "random/stream.hpp"

namespace headrace {

// One array of [heads, kSegment] behind the other.
template <class Value>
class SegmentArrays {
 public:
  SegmentArrays(std::size_t count, std::size_t heads) : size_(kSegment * heads), memory_(count * size_) {}
  Value* operator[](std::size_t i) { return memory_.data() + i * size_; }

 private:
  std::size_t size_;
  Buffer<Value> memory_;
};

// Where the edges of a segment lead to, and their positions.
template <class Index>
struct SegmentEdges {
  std::size_t count;
  std::size_t others[kSegment];
  std::size_t positions[kSegment];

  HEADRACE_INLINE void read(const EdgeRows<Index>& rows, std::size_t first, std::size_t last) {
    count = last - first;
    for (std::size_t k = 0; k < count; ++k) others[k] = rows.other(first + k);
    for (std::size_t k = 0; k < count; ++k) positions[k] = rows.position(first + k);
  }
};

// A value that all edges of a segment have in common.
template <class Value>
struct Same {
  Value value;
  HEADRACE_INLINE Value operator[](std::size_t) const { return value; }
};

// Plain scores of a head are sums of those of source, destination and edge in this order: the same bits in all
// directions. `plain` holds the sums of the first two. An edge of weight 0 does not count: it is never the largest.
template <class Value, class Index>
HEADRACE_INLINE void add_edge_scores(const AttentionScores<Value>& scores, const SegmentEdges<Index>& edges,
                                     std::size_t head, Value* plain) {
  if (scores.edge != nullptr) {
    for (std::size_t k = 0; k < edges.count; ++k) {
      plain[k] = plain[k] + scores.edge[edges.positions[k] * scores.heads + head];
    }
  }
  if (scores.weights == nullptr) return;
  for (std::size_t k = 0; k < edges.count; ++k) {
    if (scores.weights[edges.positions[k]] == 0) plain[k] = no_score<Value>();
  }
}

// exps[k] = weights[e] * exp(scores[k] - largest[k]).
template <class Value, class Index, class Largest>
HEADRACE_INLINE void exponentials(const AttentionScores<Value>& scores, const SegmentEdges<Index>& edges,
                                  const Value* __restrict from, const Largest& largest, Value* __restrict exps) {
  for (std::size_t k = 0; k < edges.count; ++k) {
    exps[k] = exponential(from[k], largest[k]);
  }
  if (scores.weights == nullptr) return;
  for (std::size_t k = 0; k < edges.count; ++k) exps[k] = exps[k] * scores.weights[edges.positions[k]];
}

// values[h, k] times what dropout leaves: 0 if head h of the edge is dropped, else kept_scale.
template <class Value, class Index>
HEADRACE_INLINE void drop(const AttentionScores<Value>& scores, const SegmentEdges<Index>& edges, Value* values) {
  if (scores.threshold == 0) return;
  for (std::size_t k = 0; k < edges.count; ++k) {
    const std::size_t position = edges.positions[k];
    const std::uint64_t id =
        scores.edge_ids == nullptr ? position : static_cast<std::uint64_t>(scores.edge_ids[position]);
    PhiloxCounter words{};
    for (std::size_t h = 0; h < scores.heads; ++h) {
      if (h % 4 == 0) words = stream_block(scores.key, id, static_cast<std::uint32_t>(h / 4));
      Value& value = values[h * kSegment + k];
      value = value * (words[h % 4] >= scores.threshold ? scores.kept_scale : Value{0});
    }
  }
}

}  // namespace headrace
