#include "aggregate/spmm.hpp"

#include "aggregate/row_sums.hpp"
#include "core/buffer.hpp"

namespace headrace {
namespace {

template <class Value, class Index>
struct SpmmBody {
  const EdgeRows<Index>& rows;
  SpmmArrays<Value> arrays;
  const Value* sources[kSegment];
  Buffer<Value> factors;  // [heads, kSegment] if there are weights

  HEADRACE_INLINE std::size_t other_bytes() const { return arrays.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    prefetch_row(arrays.x + rows.other(edge) * arrays.width, other_bytes());
    if (arrays.weights != nullptr && rows.positions != nullptr) {
      prefetch_far(arrays.weights + rows.position(edge) * arrays.heads);
    }
  }

  HEADRACE_INLINE void start(std::size_t row) const {
    if (!arrays.fresh) return;
    Value* const to = arrays.out + row * arrays.width;
    for (std::size_t i = 0; i < arrays.width; ++i) to[i] = 0;
  }

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) {
    const std::size_t count = last - first;
    Value* const to = arrays.out + row * arrays.width;
    for (std::size_t k = 0; k < count; ++k) sources[k] = arrays.x + rows.other(first + k) * arrays.width;
    if (arrays.weights == nullptr) return add_rows(to, sources, count, arrays.width);
    const std::size_t heads = arrays.heads;
    for (std::size_t k = 0; k < count; ++k) {
      const Value* const from = arrays.weights + rows.position(first + k) * heads;
      for (std::size_t h = 0; h < heads; ++h) factors[h * kSegment + k] = from[h];
    }
    add_scaled_rows(to, sources, factors.data(), kSegment, count, heads, arrays.width / heads);
  }

  HEADRACE_INLINE void finish(std::size_t row) const {
    if (arrays.divisors == nullptr) return;
    const Value divisor = arrays.divisors[row];
    Value* const to = arrays.out + row * arrays.width;
    for (std::size_t i = 0; i < arrays.width; ++i) to[i] = to[i] / divisor;
  }
};

}  // namespace

template <class Value, class Index>
void spmm(const EdgeRows<Index>& rows, const SpmmArrays<Value>& arrays, int num_threads) {
  check_edge_rows("spmm", rows, num_threads);
  if (arrays.width == 0) return;
  const std::size_t num_factors = arrays.weights == nullptr ? 0 : kSegment * arrays.heads;
  for_each_row(rows, edge_nanoseconds(arrays.width * sizeof(Value)), num_threads,
               [&] { return SpmmBody<Value, Index>{rows, arrays, {}, Buffer<Value>(num_factors)}; });
}

#define HEADRACE_INSTANTIATE(Value, Index) \
  template void spmm<Value, Index>(const EdgeRows<Index>&, const SpmmArrays<Value>&, int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
