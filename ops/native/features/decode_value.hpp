// Numbers as rows store them, read as float32 and rounded to where they go: to the nearest, ties to even.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/inline.hpp"

namespace headrace {

// By their bits: C++17 has neither.
struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};

HEADRACE_INLINE float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

HEADRACE_INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

HEADRACE_INLINE float as_float(float value) { return value; }
HEADRACE_INLINE float as_float(double value) { return static_cast<float>(value); }
HEADRACE_INLINE float as_float(std::int8_t code) { return static_cast<float>(code); }
HEADRACE_INLINE float as_float(std::uint8_t code) { return static_cast<float>(code); }
HEADRACE_INLINE float as_float(Bfloat16 value) { return float_of(static_cast<std::uint32_t>(value.bits) << 16); }

// No step has an operand below the least normal float32, which a thread may be set to read as 0.
HEADRACE_INLINE float as_float(Float16 value) {
  constexpr std::uint32_t kRebias = std::uint32_t{127 - 15} << 23;
  constexpr std::uint32_t kLeastNormal = std::uint32_t{127 - 14} << 23;  // 2^-14
  const std::uint32_t moved = static_cast<std::uint32_t>(value.bits & 0x7FFF) << 13;
  const std::uint32_t normal = moved + kRebias;
  const std::uint32_t infinite = normal + kRebias;
  const std::uint32_t small = bits_of(float_of(moved + kLeastNormal) - float_of(kLeastNormal));
  const std::uint32_t above = moved >= std::uint32_t{31} << 23 ? infinite : normal;
  const std::uint32_t magnitude = moved < std::uint32_t{1} << 23 ? small : above;
  return float_of(magnitude | static_cast<std::uint32_t>(value.bits & 0x8000) << 16);
}

HEADRACE_INLINE void round_to(float value, float& out) { out = value; }
HEADRACE_INLINE void round_to(float value, double& out) { out = static_cast<double>(value); }

HEADRACE_INLINE void round_to(float value, Bfloat16& out) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  out.bits = static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

HEADRACE_INLINE void round_to(float value, Float16& out) {
  constexpr std::uint32_t kHalf = std::uint32_t{127 - 1} << 23;  // 0.5: its last bit is the least subnormal of float16
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  const std::uint32_t normal = (magnitude - (std::uint32_t{127 - 15} << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  const std::uint32_t small = bits_of(float_of(magnitude) + float_of(kHalf)) - kHalf;
  const std::uint32_t infinite = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
  const std::uint32_t finite = magnitude < std::uint32_t{127 - 14} << 23 ? small : normal;
  const std::uint32_t rounded = magnitude >= std::uint32_t{127 + 16} << 23 ? infinite : finite;
  out.bits = static_cast<std::uint16_t>(rounded | (bits >> 16 & 0x8000));
}

}  // namespace headrace
