// Real variates, their logarithm and its inverse, the same bits on every machine: IEEE double precision in a fixed
// order, no libm (whose last bit differs between systems) and no fused multiply-add (the build sets -ffp-contract=off).
#pragma once

#include <cstdint>
#include <cstring>

namespace headrace {

// The upper 52 bits of a variate as an odd multiple of 2^-53, so that neither 0 nor 1 comes out and -u and 1 - u are
// exact.
inline double unit_interval(std::uint64_t variate) {
  const std::uint64_t bits = variate >> 12 | 0x3FF0000000000000U;  // 1 + a multiple of 2^-52
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return (value - 1.0) + 0x1p-53;
}

// -ln(u) for u of unit_interval, to within 3 units in the last place. u = m * 2^e with m in [sqrt(1/2), sqrt(2)),
// s = (m - 1) / (m + 1), z = s * s, ln(m) = 2s + 2s * z * (1/3 + z/5 + ... + z^10/23).
inline double negative_log(double u) {
  std::uint64_t bits;
  std::memcpy(&bits, &u, sizeof bits);
  // An integer below 2^52 becomes a double by writing it behind the exponent of 2^52. No conversion and no branch: so
  // the compiler can work on several variates at a time.
  const std::uint64_t exponent_bits = bits >> 52 | 0x4330000000000000U;
  const std::uint64_t mantissa_bits = (bits & 0x000FFFFFFFFFFFFFU) | 0x3FE0000000000000U;  // in [1/2, 1)
  double e;
  double m;
  std::memcpy(&e, &exponent_bits, sizeof e);
  std::memcpy(&m, &mantissa_bits, sizeof m);
  e -= 0x1p52 + 1022.0;
  const bool below = m < 0x1.6a09e667f3bcdp-1;
  m = below ? m + m : m;
  e = below ? e - 1.0 : e;
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 23.0;
  series = series * z + 1.0 / 21.0;
  series = series * z + 1.0 / 19.0;
  series = series * z + 1.0 / 17.0;
  series = series * z + 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  const double twice = s + s;
  const double log_m = twice + twice * (z * series);
  // ln(2) in two parts: the first has trailing zeros, so that its product with e is exact.
  return -(e * 6.93147180369123816490e-01 + (log_m + e * 1.90821492927058770002e-10));
}

// 1 - exp(-x) for x >= 0, to within a few units in the last place also where it is tiny. With f(x) = 1 - exp(-x),
// f(2x) = f(x) * (2 - f(x)): halve x down to 1/2, take the Taylor series, double back.
inline double one_minus_exp(double x) {
  if (!(x < 40.0)) return 1.0;
  int halvings = 0;
  for (; x > 0.5; ++halvings) x = x * 0.5;
  double series = 1.0;
  for (int n = 15; n > 1; --n) series = 1.0 - x / static_cast<double>(n) * series;
  double value = x * series;
  for (; halvings > 0; --halvings) value = value * (2.0 - value);
  return value;
}

}  // namespace headrace
