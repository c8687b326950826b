// The normal distribution and its inverse, the same bits on every machine: IEEE double precision in a fixed order, as
// in unit_interval.hpp; IEEE rounds square roots correctly, too. For kernels alone: bindings are compiled to be small.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "random/unit_interval.hpp"

namespace headrace {

// The highest power's coefficient first.
template <std::size_t kSize>
inline double polynomial(const double (&coefficients)[kSize], double x) {
  double value = coefficients[0];
  for (std::size_t i = 1; i < kSize; ++i) value = value * x + coefficients[i];
  return value;
}

// Phi^-1(u) for u of unit_interval, |Phi^-1(u)| < 8.3; relative error below 2e-15. Wichura, "Algorithm AS 241: the
// percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16.
inline double normal_quantile(double u) {
  static constexpr double kCentral[] = {2.50908092873012266727e+3, 3.34305755835881281050e+4, 6.72657709270087008530e+4,
                                        4.59219539315498714570e+4, 1.37316937655094611250e+4, 1.97159095030655144270e+3,
                                        1.33141667891784377450e+2, 3.38713287279636660800e+0};
  static constexpr double kCentralBelow[] = {
      5.22649527885285456100e+3, 2.87290857357219426740e+4, 3.93078958000927106100e+4, 2.12137943015865958670e+4,
      5.39419602142475110770e+3, 6.87187007492057908300e+2, 4.23133307016009112520e+1, 1.0};
  static constexpr double kOuter[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                                      1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                      4.63033784615654529590e+0, 1.42343711074968357734e+0};
  static constexpr double kOuterBelow[] = {
      1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
      6.89767334985100004550e-1, 1.67638483018380384940e+0, 2.05319162663775882187e+0, 1.0};
  static constexpr double kFar[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                                    2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
                                    5.46378491116411436990e+0, 6.65790464350110377720e+0};
  static constexpr double kFarBelow[] = {
      2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
      1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};
  const double q = u - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return polynomial(kCentral, r) * q / polynomial(kCentralBelow, r);
  }
  const double r = std::sqrt(negative_log(q < 0.0 ? u : 1.0 - u));
  const double x = r <= 5.0 ? polynomial(kOuter, r - 1.6) / polynomial(kOuterBelow, r - 1.6)
                            : polynomial(kFar, r - 5.0) / polynomial(kFarBelow, r - 5.0);
  return q < 0.0 ? -x : x;
}

// exp(-x) for 0 <= x < 700, relative error below 1e-15 (1 + x). x = k ln(2) - f, exp(f) by its Taylor series.
inline double exp_minus(double x) {
  static constexpr double kTaylor[] = {1.0 / 6227020800.0,
                                       1.0 / 479001600.0,
                                       1.0 / 39916800.0,
                                       1.0 / 3628800.0,
                                       1.0 / 362880.0,
                                       1.0 / 40320.0,
                                       1.0 / 5040.0,
                                       1.0 / 720.0,
                                       1.0 / 120.0,
                                       1.0 / 24.0,
                                       1.0 / 6.0,
                                       1.0 / 2.0,
                                       1.0,
                                       1.0};                 // 1 / 13!, ..., 1 / 0!
  const double shifted = x * 1.4426950408889634 + 0x1.8p52;  // k in the lowest bits
  const double k = shifted - 0x1.8p52;
  const double f = (k * 6.93147180369123816490e-01 - x) + k * 1.90821492927058770002e-10;
  std::uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (std::uint64_t{1023} << 52) - (bits << 52);  // 2^-k
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return polynomial(kTaylor, f) * power;
}

// Phi(z) as a variate, floor(2^64 Phi(z)), for |z| < 37; error of Phi below 5e-16. Of -z comes the complement, bit for
// bit. Hart et al., "Computer approximations" (1968), 5666.
inline std::uint64_t normal_variate(double z) {
  static constexpr double kAbove[] = {3.52624965998911e-02, 0.700383064443688, 6.37396220353165, 33.912866078383,
                                      112.079291497871,     221.213596169931,  220.206867912376};
  static constexpr double kBelow[] = {8.83883476483184e-02, 1.75566716318264, 16.064177579207,  86.7807322029461,
                                      296.564248779674,     637.333633378831, 793.826512519948, 440.413735824752};
  const double x = std::fabs(z);
  const double tail = exp_minus(x * x * 0.5) * (polynomial(kAbove, x) / polynomial(kBelow, x));  // at most 1/2
  const auto variate = static_cast<std::uint64_t>(tail * 0x1p64);
  return z < 0.0 ? variate : ~variate;
}

}  // namespace headrace
