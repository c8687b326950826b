#include "aggregate/sddmm.hpp"

#include "aggregate/row_sums.hpp"

namespace headrace {
namespace {

template <class Value, class Index>
struct SddmmBody {
  const EdgeRows<Index>& rows;
  SddmmArrays<Value> arrays;

  HEADRACE_INLINE std::size_t other_bytes() const { return arrays.width * sizeof(Value); }

  HEADRACE_INLINE void prefetch(std::size_t edge) const {
    prefetch_row(arrays.b + rows.other(edge) * arrays.width, other_bytes());
  }

  HEADRACE_INLINE void start(std::size_t) const {}

  HEADRACE_INLINE void add(std::size_t row, std::size_t first, std::size_t last) const {
    const std::size_t head_width = arrays.width / arrays.heads;
    for (std::size_t edge = first; edge < last; ++edge) {
      const std::size_t position = rows.position(edge);
      const Value* const a = arrays.a + row * arrays.width;
      const Value* const b = arrays.b + rows.other(edge) * arrays.width;
      Value* const to = arrays.out + position * arrays.heads;
      for (std::size_t h = 0; h < arrays.heads; ++h) {
        const std::size_t at = h * head_width;
        to[h] = arrays.winners == nullptr ? dot(a + at, b + at, head_width)
                                          : dot_won(a + at, b + at, arrays.winners + row * arrays.width + at,
                                                    static_cast<std::int64_t>(position), head_width);
      }
    }
  }

  HEADRACE_INLINE void finish(std::size_t) const {}

 private:
  static HEADRACE_INLINE Value dot_won(const Value* a, const Value* b, const std::int64_t* winners,
                                       std::int64_t position, std::size_t width) {
    Value sum = 0;
    for (std::size_t i = 0; i < width; ++i) {
      if (winners[i] == position) sum = sum + a[i] * b[i];
    }
    return sum;
  }
};

}  // namespace

template <class Value, class Index>
void sddmm(const EdgeRows<Index>& rows, const SddmmArrays<Value>& arrays, int num_threads) {
  check_edge_rows("sddmm", rows, num_threads);
  for_each_row(rows, edge_nanoseconds(arrays.width * sizeof(Value)), num_threads,
               [&] { return SddmmBody<Value, Index>{rows, arrays}; });
}

#define HEADRACE_INSTANTIATE(Value, Index) \
  template void sddmm<Value, Index>(const EdgeRows<Index>&, const SddmmArrays<Value>&, int);
HEADRACE_INSTANTIATE(float, std::int32_t)
HEADRACE_INSTANTIATE(float, std::int64_t)
HEADRACE_INSTANTIATE(double, std::int32_t)
HEADRACE_INSTANTIATE(double, std::int64_t)
#undef HEADRACE_INSTANTIATE

}  // namespace headrace
