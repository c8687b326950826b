// Twin of ops/native/aggregate/attention.cpp: attention over the in-edges of each row (GAT, arXiv 1710.10903), which
// may come in parts (SAR, arXiv 2111.06483).

#include <cstdint>

#include "attention.cuh"

namespace headrace {

template <class Value, class Index>
__global__ void attend(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices, const Index* positions,
                       std::int64_t heads, const Value* source, const Value* destination, const Value* edge_scores,
                       const Value* weights, double slope, std::uint64_t key, std::uint64_t threshold,
                       double kept_scale, const std::int64_t* edge_ids, const Value* x, std::int64_t width,
                       Value* largest, Value* sums, Value* out, std::int64_t fresh, std::int64_t last) {
  __shared__ Segment<Value> segments[WarpGroup::kPerBlock];
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const AttentionScores<Value> scores{
      heads, edge_scores, weights, static_cast<Value>(slope), key, threshold, static_cast<Value>(kept_scale), edge_ids};
  const std::int64_t head_width = width / heads;
  const WarpGroup group;
  Segment<Value>& segment = segments[group.in_block];
  for_each_row_heads(num_rows, heads, group, [&](const RowHeads& of) {
    const std::int64_t at = of.row * heads + of.first;
    const std::int64_t num_columns = of.count * head_width;
    Value* const row = out + of.row * width + of.first * head_width;
    Value top[kHeads];  // the largest scores, of which every lane knows all
#pragma unroll
    for (int h = 0; h < kHeads; ++h) top[h] = fresh != 0 || h >= of.count ? no_score<Value>() : largest[at + h];
    const bool sums_up = group.rank < of.count;  // lane h sums up head h
    Value sum = fresh != 0 || !sums_up ? Value{0} : sums[at + group.rank];
    if (fresh != 0) {
      for (std::int64_t c = group.rank; c < num_columns; c += kWarp) row[c] = 0;
    }
    for_each_segment(rows, of.row, group, [&](const LaneEdge& edge, int count) {
      const Dropout<Value> dropout(scores, edge.position, of.first);
      segment.rows[group.rank] = edge.other * width;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (h >= of.count) break;
        Value score = no_score<Value>();
        if (edge.is_one) {
          const Value plain = plain_score(scores, source[edge.other * heads + of.first + h] + destination[at + h],
                                          edge.position, of.first + h);
          score = plain * leak(plain, scores.slope);
        }
        // NaN is not the largest one: it comes in by its exponential.
        const Value found = largest_of(group, score == score ? score : no_score<Value>());
        const Value before = top[h];
        top[h] = found > before ? found : before;
        // What was summed is relative to the largest score before, if there was one.
        const bool stays = top[h] == before || before == no_score<Value>();
        if (group.rank == h) segment.of_head[h] = stays ? Value{1} : exp_of_negative(before - top[h]);
        if (edge.is_one) {
          const Value term = weighted_exponential(scores, score, top[h], edge.position);
          segment.terms[h][group.rank] = term;
          segment.factors[h][group.rank] = dropout.of(term, h);
        }
      }
      group.sync();
      if (sums_up) sum = add_terms(sum * segment.of_head[group.rank], segment.terms[group.rank], count);
      add_scaled_rows(group, segment, count, of, head_width, width, x, out, true);
      group.sync();  // before the next segment is written
    });
    if (sums_up) {
      sums[at + group.rank] = sum;
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        if (h == group.rank) largest[at + h] = top[h];
      }
      segment.of_head[group.rank] = sum;
    }
    group.sync();
    if (last != 0) {
      for (std::int64_t c = group.rank; c < num_columns; c += kWarp) {
        const Value total = segment.of_head[c / head_width];
        if (total != 0) row[c] = row[c] / total;  // else the rows' sums are 0 as well
      }
    }
    group.sync();  // before the next row is written
  });
}

}  // namespace headrace
