// Products of 128 bits.
#pragma once

#include <cstdint>

namespace headrace {

__extension__ using uint128 = unsigned __int128;

inline std::uint64_t mulhi64(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>(static_cast<uint128>(a) * b >> 64);
}

}  // namespace headrace
