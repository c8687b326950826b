// Unbiased integers below a bound: multiply-shift with rejection (Lemire, "Fast random integer generation in an
// interval", arXiv 1805.10941).
#pragma once

#include <cstdint>

#include "core/wide.hpp"
#include "random/stream.hpp"

namespace headrace {

// Uniform on [0, range). range = 1 takes no word, range < 2^32 takes one word per
// attempt, a larger one two (low, high).
inline std::uint64_t bounded(WordStream& stream, std::uint64_t range) {
  if (range == 1) return 0;
  if (range <= 0xFFFFFFFFU) {
    const auto narrow = static_cast<std::uint32_t>(range);
    std::uint64_t product = static_cast<std::uint64_t>(stream.next()) * narrow;
    if (low_word(product) < narrow) {
      const std::uint32_t threshold = (0U - narrow) % narrow;
      while (low_word(product) < threshold) product = static_cast<std::uint64_t>(stream.next()) * narrow;
    }
    return product >> 32;
  }
  const auto next_word64 = [&stream] {
    const std::uint64_t low = stream.next();
    return static_cast<std::uint64_t>(stream.next()) << 32 | low;
  };
  uint128 product = static_cast<uint128>(next_word64()) * range;
  if (static_cast<std::uint64_t>(product) < range) {
    const std::uint64_t threshold = (0 - range) % range;
    while (static_cast<std::uint64_t>(product) < threshold) product = static_cast<uint128>(next_word64()) * range;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace headrace
