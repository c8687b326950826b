// Sums over columns of rows, compiled again for each instruction set. Each column is summed in the written order, and
// dot products in lanes that are as many everywhere, so that all sets give the same bits.
#pragma once

#include <cstddef>
#include <cstring>

#include "core/instruction_set.hpp"

namespace headrace {

// to[c] = to[c] + rows[0][c] + rows[1][c] + ... from left to right. Several rows at a time, as `to` is read and written
// once for all of them.
template <class Value>
HEADRACE_INLINE void add_rows(Value* __restrict to, const Value* const* rows, std::size_t count, std::size_t width) {
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    const Value* const a = rows[k];
    const Value* const b = rows[k + 1];
    const Value* const c = rows[k + 2];
    const Value* const d = rows[k + 3];
    for (std::size_t i = 0; i < width; ++i) to[i] = to[i] + a[i] + b[i] + c[i] + d[i];
  }
  for (; k + 2 <= count; k += 2) {
    const Value* const a = rows[k];
    const Value* const b = rows[k + 1];
    for (std::size_t i = 0; i < width; ++i) to[i] = to[i] + a[i] + b[i];
  }
  if (k < count) {
    const Value* const a = rows[k];
    for (std::size_t i = 0; i < width; ++i) to[i] = to[i] + a[i];
  }
}

// The same with a factor for each row and head: columns [h * head_width, (h + 1) * head_width) of row k are multiplied
// by factors[h * stride + k].
template <class Value>
HEADRACE_INLINE void add_scaled_rows(Value* __restrict to, const Value* const* rows, const Value* factors,
                                     std::size_t stride, std::size_t count, std::size_t heads, std::size_t head_width) {
  std::size_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t first = h * head_width;
      Value* __restrict const sum = to + first;
      const Value* const a = rows[k] + first;
      const Value* const b = rows[k + 1] + first;
      const Value* const c = rows[k + 2] + first;
      const Value* const d = rows[k + 3] + first;
      const Value* const f = factors + h * stride + k;
      const Value fa = f[0];
      const Value fb = f[1];
      const Value fc = f[2];
      const Value fd = f[3];
      for (std::size_t i = 0; i < head_width; ++i) sum[i] = sum[i] + fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i];
    }
  }
  for (; k < count; ++k) {
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t first = h * head_width;
      Value* __restrict const sum = to + first;
      const Value* const a = rows[k] + first;
      const Value fa = factors[h * stride + k];
      for (std::size_t i = 0; i < head_width; ++i) sum[i] = sum[i] + fa * a[i];
    }
  }
}

constexpr std::size_t kDotLanes = 8;

// Eight values, in as many registers as the instruction set takes for them.
template <class Value>
struct Lanes {
  typedef Value Type __attribute__((vector_size(kDotLanes * sizeof(Value))));
};

// The sum of products: lane l adds those of columns l, l + 8, l + 16, ...; then the lanes are added in pairs.
template <class Value>
HEADRACE_INLINE Value dot(const Value* a, const Value* b, std::size_t width) {
  using Type = typename Lanes<Value>::Type;
  Type sums = {};
  Type left;
  Type right;
  std::size_t i = 0;
  for (; i + kDotLanes <= width; i += kDotLanes) {
    std::memcpy(&left, a + i, sizeof left);
    std::memcpy(&right, b + i, sizeof right);
    sums = sums + left * right;
  }
  if (i < width) {
    left = right = Type{};
    std::memcpy(&left, a + i, (width - i) * sizeof(Value));
    std::memcpy(&right, b + i, (width - i) * sizeof(Value));
    sums = sums + left * right;
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace headrace
