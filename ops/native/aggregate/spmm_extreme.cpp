#include "aggregate/spmm_extreme.hpp"

#include <limits>

#include "aggregate/extreme_order.hpp"

namespace headrace {
namespace {

template <class Value>
HEADRACE_INLINE void keep_extreme(Value* __restrict to, std::int64_t* __restrict winners, const Value* __restrict from,
                                  Value factor, std::int64_t position, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    const Value message = factor * from[i];
    const Value held = to[i];
    const std::int64_t winner = winners[i];
    const bool takes = takes_place(message, position, held, winner);
    to[i] = takes ? message : held;
    winners[i] = takes ? position : winner;
  }
}

// The smallest messages are the largest of their negatives, which `out` holds while rows are walked.
template <class Value, class Index>
struct ExtremeBody {
  const EdgeRows<Index>& rows;
  ExtremeArrays<Value> arrays;

  HEADRACE_INLINE std::size_t other_bytes() const { return arrays.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    prefetch_row(arrays.x + rows.other(edge) * arrays.width, other_bytes());
  }

  HEADRACE_INLINE void start(std::size_t row) const {
    Value* const to = arrays.out + row * arrays.width;
    std::int64_t* const winners = arrays.winners + row * arrays.width;
    if (arrays.fresh) {
      for (std::size_t i = 0; i < arrays.width; ++i) to[i] = -std::numeric_limits<Value>::infinity();
      for (std::size_t i = 0; i < arrays.width; ++i) winners[i] = -1;
    } else if (!arrays.largest) {
      for (std::size_t i = 0; i < arrays.width; ++i) to[i] = -to[i];
    }
  }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) const {
    const std::size_t head_width = arrays.width / arrays.heads;
    const Value sign = arrays.largest ? Value{1} : Value{-1};
    for (std::size_t edge = first; edge < last; ++edge) {
      const std::size_t position = rows.position(edge);
      const Value* const from = arrays.x + rows.other(edge) * arrays.width;
      for (std::size_t h = 0; h < arrays.heads; ++h) {
        const std::size_t at = row * arrays.width + h * head_width;
        const Value factor = arrays.weights == nullptr ? sign : sign * arrays.weights[position * arrays.heads + h];
        keep_extreme(arrays.out + at, arrays.winners + at, from + h * head_width, factor,
                     static_cast<std::int64_t>(position), head_width);
      }
    }
  }

  HEADRACE_INLINE void finish(std::size_t row) const {
    Value* const to = arrays.out + row * arrays.width;
    const std::int64_t* const winners = arrays.winners + row * arrays.width;
    if (!arrays.largest) {
      for (std::size_t i = 0; i < arrays.width; ++i) to[i] = -to[i];
    }
    if (!arrays.last) return;
    for (std::size_t i = 0; i < arrays.width; ++i) to[i] = winners[i] < 0 ? Value{0} : to[i];
  }
};

template <class Value>
HEADRACE_INLINE void add_won(Value* __restrict to, const Value* __restrict from, const std::int64_t* __restrict winners,
                             Value factor, std::int64_t position, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) to[i] = to[i] + (winners[i] == position ? factor * from[i] : Value{0});
}

template <class Value, class Index>
struct WinnerBody {
  const EdgeRows<Index>& rows;
  WinnerArrays<Value> arrays;

  HEADRACE_INLINE std::size_t other_bytes() const { return arrays.width * (sizeof(Value) + sizeof(std::int64_t)); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    const std::size_t at = rows.other(edge) * arrays.width;
    prefetch_row(arrays.gradients + at, arrays.width * sizeof(Value));
    prefetch_row(arrays.winners + at, arrays.width * sizeof(std::int64_t));
  }

  HEADRACE_INLINE void start(std::size_t row) const {
    if (!arrays.fresh) return;
    Value* const to = arrays.out + row * arrays.width;
    for (std::size_t i = 0; i < arrays.width; ++i) to[i] = 0;
  }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) const {
    const std::size_t head_width = arrays.width / arrays.heads;
    for (std::size_t edge = first; edge < last; ++edge) {
      const std::size_t position = rows.position(edge);
      for (std::size_t h = 0; h < arrays.heads; ++h) {
        const std::size_t at = rows.other(edge) * arrays.width + h * head_width;
        const Value factor = arrays.weights == nullptr ? Value{1} : arrays.weights[position * arrays.heads + h];
        add_won(arrays.out + row * arrays.width + h * head_width, arrays.gradients + at, arrays.winners + at, factor,
                static_cast<std::int64_t>(position), head_width);
      }
    }
  }

  HEADRACE_INLINE void finish(std::size_t) const {}
};

}  // namespace

template <class Value, class Index>
void spmm_extreme(const EdgeRows<Index>& rows, const ExtremeArrays<Value>& arrays, int num_threads) {
  check_edge_rows("spmm_extreme", rows, num_threads);
  if (arrays.width == 0) return;
  for_each_row(rows, edge_nanoseconds(arrays.width * sizeof(Value)), num_threads,
               [&] { return ExtremeBody<Value, Index>{rows, arrays}; });
}

template <class Value, class Index>
void spmm_winners(const EdgeRows<Index>& rows, const WinnerArrays<Value>& arrays, int num_threads) {
  check_edge_rows("spmm_winners", rows, num_threads);
  if (arrays.width == 0) return;
  for_each_row(rows, edge_nanoseconds(arrays.width * (sizeof(Value) + sizeof(std::int64_t))), num_threads,
               [&] { return WinnerBody<Value, Index>{rows, arrays}; });
}

#define HEADRACE_INSTANTIATE(Value, Index)                                                            \
  template void spmm_extreme<Value, Index>(const EdgeRows<Index>&, const ExtremeArrays<Value>&, int); \
  template void spmm_winners<Value, Index>(const EdgeRows<Index>&, const WinnerArrays<Value>&, int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
