#include "aggregate/attention.hpp"

#include "aggregate/attention_segment.hpp"
#include "aggregate/row_sums.hpp"

namespace headrace {
namespace {

template <class Value, class Index>
struct AttendBody {
  const EdgeRows<Index>& rows;
  AttentionScores<Value> scores;
  AttentionState<Value> state;
  Buffer<Value> exps;  // [heads, kSegment]
  SegmentEdges<Index> edges;
  const Value* sources[kSegment];

  HEADRACE_INLINE std::size_t other_bytes() const { return state.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    const std::size_t source = rows.other(edge);
    prefetch_row(state.x + source * state.width, other_bytes());
    prefetch_row(scores.source + source * scores.heads, scores.heads * sizeof(Value));
  }

  HEADRACE_INLINE void start(std::size_t row) const {
    if (!state.fresh) return;
    for (std::size_t h = 0; h < scores.heads; ++h) state.largest[row * scores.heads + h] = no_score<Value>();
    for (std::size_t h = 0; h < scores.heads; ++h) state.sums[row * scores.heads + h] = 0;
    Value* const to = state.out + row * state.width;
    for (std::size_t i = 0; i < state.width; ++i) to[i] = 0;
  }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) {
    const std::size_t heads = scores.heads;
    edges.read(rows, first, last);
    for (std::size_t k = 0; k < edges.count; ++k) sources[k] = state.x + edges.others[k] * state.width;
    for (std::size_t h = 0; h < heads; ++h) add_exponentials(row, h, exps.data() + h * kSegment);
    drop(scores, edges, exps.data());
    add_scaled_rows(state.out + row * state.width, sources, exps.data(), kSegment, edges.count, heads,
                    state.width / heads);
  }

  HEADRACE_INLINE void finish(std::size_t row) const {
    if (!state.last) return;
    const std::size_t head_width = state.width / scores.heads;
    for (std::size_t h = 0; h < scores.heads; ++h) {
      const Value sum = state.sums[row * scores.heads + h];
      if (sum == 0) continue;  // so are the rows' sums
      Value* const to = state.out + row * state.width + h * head_width;
      for (std::size_t i = 0; i < head_width; ++i) to[i] = to[i] / sum;
    }
  }

 private:
  HEADRACE_INLINE void add_exponentials(std::size_t row, std::size_t head, Value* values) const {
    const std::size_t heads = scores.heads;
    const std::size_t at = row * heads + head;
    const Value destination = scores.destination[at];
    for (std::size_t k = 0; k < edges.count; ++k) {
      values[k] = scores.source[edges.others[k] * heads + head] + destination;
    }
    add_edge_scores(scores, edges, head, values);
    for (std::size_t k = 0; k < edges.count; ++k) values[k] = values[k] * leak(values[k], scores.slope);
    raise_largest(row, head, values);
    Value found[kSegment];
    exponentials(scores, edges, values, Same<Value>{state.largest[at]}, found);
    Value sum = state.sums[at];
    for (std::size_t k = 0; k < edges.count; ++k) sum = sum + found[k];
    state.sums[at] = sum;
    for (std::size_t k = 0; k < edges.count; ++k) values[k] = found[k];
  }

  // Let the largest score be that of all edges so far, and what was summed be relative to it.
  HEADRACE_INLINE void raise_largest(std::size_t row, std::size_t head, const Value* segment) const {
    const std::size_t head_width = state.width / scores.heads;
    const std::size_t at = row * scores.heads + head;
    const Value before = state.largest[at];
    Value largest = before;
    for (std::size_t k = 0; k < edges.count; ++k) largest = segment[k] > largest ? segment[k] : largest;
    if (largest == before) return;
    state.largest[at] = largest;
    if (before == no_score<Value>()) return;  // nothing was summed
    const Value factor = exp_of_negative(before - largest);
    state.sums[at] = state.sums[at] * factor;
    Value* const to = state.out + row * state.width + head * head_width;
    for (std::size_t i = 0; i < head_width; ++i) to[i] = to[i] * factor;
  }
};

}  // namespace

template <class Value, class Index>
void attend(const EdgeRows<Index>& rows, const AttentionScores<Value>& scores, const AttentionState<Value>& state,
            int num_threads) {
  check_edge_rows("attend", rows, num_threads);
  if (scores.heads == 0) return;
  for_each_row(rows, edge_nanoseconds((state.width + 8 * scores.heads) * sizeof(Value)), num_threads, [&] {
    return AttendBody<Value, Index>{rows, scores, state, Buffer<Value>(scores.heads * kSegment), {}, {}};
  });
}

#define HEADRACE_INSTANTIATE(Value, Index)                                                  \
  template void attend<Value, Index>(const EdgeRows<Index>&, const AttentionScores<Value>&, \
                                     const AttentionState<Value>&, int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
