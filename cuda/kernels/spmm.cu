// Twin of ops/native/aggregate/spmm.cpp and spmm_extreme.cpp. A thread works on one column of one row and takes the
// edges of the row in their order: these are the additions of the CPU, and no two threads write to one place.
// Neighbours have neighbouring columns, so they read rows of the other table side by side.
//
// The order is why a row of very many edges is never divided: its columns are worked on side by side, its edges are
// not.

#include <cstdint>
#include <limits>

#include "aggregate/extreme_order.hpp"
#include "edge_rows.cuh"
#include "grid.cuh"

namespace headrace {

// Weights of edges in one head, [num_positions, heads] from that head on, or null: 1.
template <class Value>
struct HeadWeights {
  const Value* weights;
  std::int64_t heads;

  Value operator[](std::int64_t position) const { return weights == nullptr ? Value{1} : weights[position * heads]; }
};

// Call visit(row, column, item, weights) for every item of a table of rows, with the weights of the column's head.
template <class Value, class Visit>
void for_each_entry(std::int64_t num_rows, std::int64_t width, const Value* weights, std::int64_t heads,
                    const Visit& visit) {
  const std::int64_t head_width = width / heads;
  for_each_item(num_rows * width, [&](std::int64_t item) {
    const std::int64_t column = item % width;
    visit(item / width, column, item,
          HeadWeights<Value>{weights == nullptr ? nullptr : weights + column / head_width, heads});
  });
}

// out[i] = (out[i] + sum of weights[e] * x[indices[e]]) / divisors[i]; what `out` holds does not count where it is
// fresh.
template <class Value, class Index>
__global__ void spmm(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices, const Index* positions,
                     const Value* x, std::int64_t width, const Value* weights, std::int64_t heads, Value* out,
                     const Value* divisors, std::int64_t fresh) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const auto visit = [&](std::int64_t row, std::int64_t column, std::int64_t item, const HeadWeights<Value>& factors) {
    Value sum = fresh != 0 ? Value{0} : out[item];
    const auto message = [&](std::int64_t edge) {
      const Value value = x[rows.other(edge) * width + column];
      return weights == nullptr ? value : factors[rows.position(edge)] * value;
    };
    rows.for_each_edge(row, message, [&](Value value) { sum = sum + value; });
    out[item] = divisors == nullptr ? sum : sum / divisors[row];
  };
  for_each_entry(num_rows, width, weights, heads, visit);
}

template <class Value>
struct Message {
  Value value;
  std::int64_t position;
};

// The largest or the smallest message of each row, column by column. The smallest are the largest of their negatives.
template <class Value, class Index>
__global__ void spmm_extreme(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices,
                             const Index* positions, const Value* x, std::int64_t width, const Value* weights,
                             std::int64_t heads, Value* out, std::int64_t* winners, std::int64_t largest,
                             std::int64_t fresh, std::int64_t last) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const Value sign = largest != 0 ? Value{1} : Value{-1};
  const auto visit = [&](std::int64_t row, std::int64_t column, std::int64_t item, const HeadWeights<Value>& factors) {
    Value held = fresh != 0 ? -std::numeric_limits<Value>::infinity() : sign * out[item];
    std::int64_t winner = fresh != 0 ? -1 : winners[item];
    const auto message = [&](std::int64_t edge) {
      const std::int64_t position = rows.position(edge);
      const Value factor = sign * factors[position];
      return Message<Value>{factor * x[rows.other(edge) * width + column], position};
    };
    rows.for_each_edge(row, message, [&](const Message<Value>& one) {
      if (!takes_place(one.value, one.position, held, winner)) return;
      held = one.value;
      winner = one.position;
    });
    out[item] = last != 0 && winner < 0 ? Value{0} : sign * held;
    winners[item] = winner;
  };
  for_each_entry(num_rows, width, weights, heads, visit);
}

// The backward direction, over transposed rows: out[j] += weights[e] * gradients[i] where edge e from j to i has won.
template <class Value, class Index>
__global__ void spmm_winners(const std::int64_t* indptr, std::int64_t num_rows, const Index* indices,
                             const Index* positions, const Value* gradients, const std::int64_t* winners,
                             std::int64_t width, const Value* weights, std::int64_t heads, Value* out,
                             std::int64_t fresh) {
  const EdgeRows<Index> rows{indptr, num_rows, indices, positions};
  const auto visit = [&](std::int64_t row, std::int64_t column, std::int64_t item, const HeadWeights<Value>& factors) {
    Value sum = fresh != 0 ? Value{0} : out[item];
    const auto message = [&](std::int64_t edge) {
      const std::int64_t position = rows.position(edge);
      const std::int64_t from = rows.other(edge) * width + column;
      return winners[from] == position ? factors[position] * gradients[from] : Value{0};
    };
    rows.for_each_edge(row, message, [&](Value value) { sum = sum + value; });
    out[item] = sum;
  };
  for_each_entry(num_rows, width, weights, heads, visit);
}

}  // namespace headrace
