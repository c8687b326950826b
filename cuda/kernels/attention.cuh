// Twin of ops/native/aggregate/attention_segment.hpp: what the directions of attention share. A warp works on a row and
// up to four heads, and takes the edges of the row in segments of 32, as the CPU does: each lane computes the terms of
// one edge, and what is summed is then added edge after edge, for each head or column by one lane.
//
// Rounding by segment is why a row of very many edges is never divided: only its heads are worked on side by side.
#pragma once

#include <cstdint>

#include "aggregate/attention_terms.hpp"
#include "dot.cuh"
#include "edge_rows.cuh"
#include "group.cuh"
#include "random/stream.hpp"

namespace headrace {

constexpr int kHeads = 4;  // of a warp: as many as a block of a stream has words

// What scores and attention depend on, see ops/native/aggregate/attention.hpp.
template <class Value>
struct AttentionScores {
  std::int64_t heads;
  const Value* edge;
  const Value* weights;
  Value slope;
  std::uint64_t key;
  std::uint64_t threshold;
  Value kept_scale;
  const std::int64_t* edge_ids;
};

// Up to four heads of a row.
struct RowHeads {
  std::int64_t row;
  std::int64_t first;  // head
  int count;
};

inline std::int64_t chunks_of(std::int64_t heads) { return (heads + kHeads - 1) / kHeads; }

// Call visit(heads) for all rows, a warp for each row and four heads.
template <class Visit>
void for_each_row_heads(std::int64_t num_rows, std::int64_t heads, const WarpGroup& group, const Visit& visit) {
  const std::int64_t chunks = chunks_of(heads);
  for_each_by_group(num_rows * chunks, group, [&](std::int64_t item) {
    const std::int64_t first = item % chunks * kHeads;
    visit(RowHeads{item / chunks, first, static_cast<int>(heads - first < kHeads ? heads - first : kHeads)});
  });
}

// What lanes tell each other of a segment: one for each warp of a block.
template <class Value>
struct Segment {
  static constexpr int kPadded = kWarp + 1;  // so that values of several heads are in different banks

  std::int64_t rows[kWarp];        // where those begin that edges lead to
  Value terms[kHeads][kPadded];    // to be summed by head
  Value factors[kHeads][kPadded];  // of rows that are summed by column
  Value of_head[kHeads];           // that sums so far are multiplied by
};

// The edge of this lane.
struct LaneEdge {
  bool is_one;
  std::int64_t other;
  std::int64_t position;
};

// Call visit(edge, count) for the segments of a row, in their order.
template <class Index, class Visit>
void for_each_segment(const EdgeRows<Index>& rows, std::int64_t row, const WarpGroup& group, const Visit& visit) {
  for (std::int64_t first = rows.indptr[row]; first < rows.indptr[row + 1]; first += kWarp) {
    const std::int64_t left = rows.indptr[row + 1] - first;
    const int count = left < kWarp ? static_cast<int>(left) : kWarp;
    LaneEdge edge{group.rank < count, 0, 0};
    if (edge.is_one) edge = {true, rows.other(first + group.rank), rows.position(first + group.rank)};
    visit(edge, count);
  }
}

// The score of an edge before its rectifier, of the scores of its two ends. An edge of weight 0 does not count.
template <class Value>
Value plain_score(const AttentionScores<Value>& scores, Value ends, std::int64_t position, std::int64_t head) {
  if (scores.weights != nullptr && scores.weights[position] == 0) return no_score<Value>();
  return scores.edge == nullptr ? ends : ends + scores.edge[position * scores.heads + head];
}

// weights[e] * exp(score - largest).
template <class Value>
Value weighted_exponential(const AttentionScores<Value>& scores, Value score, Value largest, std::int64_t position) {
  const Value found = exponential(score, largest);
  return scores.weights == nullptr ? found : found * scores.weights[position];
}

// What dropout leaves of the four heads of an edge from head `first` on; each value is multiplied by it.
template <class Value>
class Dropout {
 public:
  Dropout(const AttentionScores<Value>& scores, std::int64_t position, std::int64_t first) : scores_(scores) {
    if (scores.threshold == 0) return;
    const std::int64_t id = scores.edge_ids == nullptr ? position : scores.edge_ids[position];
    words_ = stream_block(scores.key, static_cast<std::uint64_t>(id), static_cast<std::uint32_t>(first / kHeads));
  }

  Value of(Value value, int head) const {
    if (scores_.threshold == 0) return value;
    return value * (words_[static_cast<unsigned>(head)] >= scores_.threshold ? scores_.kept_scale : Value{0});
  }

 private:
  const AttentionScores<Value>& scores_;
  PhiloxCounter words_{};
};

// The largest value of all lanes; of equal ones, as 0 and -0 are, that of the lowest lane. Lanes have no NaN.
template <class Value>
Value largest_of(const WarpGroup& group, Value value) {
  for (int with = 1; with < kWarp; with *= 2) {
    const Value other = __shfl_xor_sync(kAllLanes, value, with);
    const bool other_is_before = (group.rank & with) != 0;
    const bool takes = other_is_before ? !(value > other) : other > value;
    value = takes ? other : value;
  }
  return value;
}

// value + terms[0] + ... + terms[count - 1] from left to right.
template <class Value>
Value add_terms(Value value, const Value* terms, int count) {
  for (int k = 0; k < count; ++k) value = value + terms[k];
  return value;
}

// to[c] = to[c] * of_head + the sum of factors[k] * from[rows[k] + c], edge after edge, for the columns c of the heads.
// `to` and `from` are tables of `width` columns; a column has always the same lane.
template <class Value>
void add_scaled_rows(const WarpGroup& group, const Segment<Value>& segment, int count, const RowHeads& heads,
                     std::int64_t head_width, std::int64_t width, const Value* from, Value* to, bool rescales) {
  const std::int64_t first = heads.first * head_width;
  Value* const row = to + heads.row * width + first;
  for (std::int64_t c = group.rank; c < heads.count * head_width; c += kWarp) {
    const std::int64_t head = c / head_width;
    Value sum = rescales ? row[c] * segment.of_head[head] : row[c];
    const Value* const factors = segment.factors[head];
#pragma unroll 8
    for (int k = 0; k < count; ++k) sum = sum + factors[k] * from[segment.rows[k] + first + c];
    row[c] = sum;
  }
}

// terms[h][k] = the dot product of head h of `row` and of the row that begins at from[rows[k]], by eight lanes.
template <class Value>
void dot_rows(const WarpGroup& group, Segment<Value>& segment, int count, const RowHeads& heads,
              std::int64_t head_width, const Value* row, const Value* from) {
  const int products = count * heads.count;
  for (int first = 0; first < products; first += kDotsPerWarp) {
    const int i = first + group.rank / kDotLanes;
    const bool is_one = i < products;
    const int k = is_one ? i / heads.count : 0;
    const int head = is_one ? i % heads.count : 0;
    const std::int64_t at = (heads.first + head) * head_width;
    const Value product = dot(row + at, from + segment.rows[k] + at, is_one ? head_width : 0);
    if (is_one && writes_dot()) segment.terms[head][k] = product;
  }
}

}  // namespace headrace
