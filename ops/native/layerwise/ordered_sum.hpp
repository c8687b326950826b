// Sums whose bits do not depend on who adds: blocks of 256 terms from left to right, then the blocks from left to
// right. So several threads, or a GPU, can share a long sum and agree on the result.
#pragma once

#include <algorithm>
#include <cstddef>

namespace headrace {

constexpr std::size_t kSumBlock = 256;

// term(0) + ... + term(count - 1). `Value` is a number or has operator+=; a value-initialised one is zero.
template <class Value, class Term>
Value ordered_sum(std::size_t count, const Term& term) {
  Value total{};
  for (std::size_t begin = 0; begin < count; begin += kSumBlock) {
    const std::size_t end = std::min(count, begin + kSumBlock);
    Value block{};
    for (std::size_t i = begin; i < end; ++i) block += term(i);
    total += block;
  }
  return total;
}

}  // namespace headrace
