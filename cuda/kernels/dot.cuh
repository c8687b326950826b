// Twin of dot in ops/native/aggregate/row_sums.hpp: eight neighbouring lanes compute a dot product.
#pragma once

#include <cstdint>

#include "grid.cuh"

namespace headrace {

constexpr int kDotLanes = 8;
constexpr int kDotsPerWarp = kWarp / kDotLanes;

// Lane l adds the products of columns l, l + 8, l + 16, ...; then the lanes are added in pairs, after which all eight
// have the sum. All lanes of a warp call it, those without work with no columns.
template <class Value>
Value dot(const Value* a, const Value* b, std::int64_t width) {
  Value sum = 0;
  for (std::int64_t i = static_cast<int>(threadIdx.x) % kDotLanes; i < width; i += kDotLanes) sum = sum + a[i] * b[i];
  for (int with = kDotLanes / 2; with != 0; with /= 2) sum = sum + __shfl_xor_sync(kAllLanes, sum, with);
  return sum;
}

// Call visit(i, is_one) with eight lanes for every i below `count`; where there is none left they come without one, so
// that all lanes of a warp come together.
template <class Visit>
void for_each_dot(std::int64_t count, const Visit& visit) {
  const std::int64_t in_warp = static_cast<int>(threadIdx.x) % kWarp / kDotLanes;
  for (std::int64_t first = thread_of_grid() / kWarp * kDotsPerWarp; first < count;
       first += threads_of_grid() / kWarp * kDotsPerWarp) {
    visit(first + in_warp, first + in_warp < count);
  }
}

// Whether this is the lane of the eight that writes.
inline bool writes_dot() { return threadIdx.x % kDotLanes == 0; }

}  // namespace headrace
