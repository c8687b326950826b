// exp(x) for x <= 0, the same bits on every machine and in every vector width: no libm, whose last bit differs between
// systems, and no branch. x = n ln(2) + r with |r| <= ln(2) / 2, and exp(r) by its Taylor series.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/inline.hpp"

namespace headrace {

// To within 2 units in the last place; 0 below -87, where results would no longer be normal numbers. NaN stays NaN.
HEADRACE_INLINE float exp_of_negative(float x) {
  constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23: what is added to it is rounded, and stands in its low bits
  const float shifted = x * 1.44269504F + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;  // ln(2) in two parts, the first one exact times n
  float series = 1.0F / 5040;
  series = series * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = series * r + 1.0F;
  series = series * r + 1.0F;
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;  // 2^n: the upper bits of the constant are shifted out
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0F ? 0.0F : series * power;
}

// The same; 0 below -708.
HEADRACE_INLINE double exp_of_negative(double x) {
  constexpr double kToInteger = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = x * 1.4426950408889634 + kToInteger;
  const double n = shifted - kToInteger;
  const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  double series = 1.0 / 6227020800.0;
  series = series * r + 1.0 / 479001600.0;
  series = series * r + 1.0 / 39916800.0;
  series = series * r + 1.0 / 3628800.0;
  series = series * r + 1.0 / 362880.0;
  series = series * r + 1.0 / 40320.0;
  series = series * r + 1.0 / 5040.0;
  series = series * r + 1.0 / 720.0;
  series = series * r + 1.0 / 120.0;
  series = series * r + 1.0 / 24.0;
  series = series * r + 1.0 / 6.0;
  series = series * r + 0.5;
  series = series * r + 1.0;
  series = series * r + 1.0;
  std::uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -708.0 ? 0.0 : series * power;
}

}  // namespace headrace
