// Non-negative doubles compare like their bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace headrace {

inline std::uint64_t ordered_bits(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline double from_ordered_bits(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace headrace
