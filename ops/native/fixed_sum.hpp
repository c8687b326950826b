// Sums of numbers of [0, 1] that do not depend on the order of their terms, and so not on who adds which of them. They
// are what decisions hang on that threads, processes or devices take apart and must take alike.
//
// A term is rounded down to a multiple of 2^-95, of which 128 bits hold sums of up to 2^32 terms. Adding them is exact.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bounded.hpp"

namespace headrace {

class FixedSum {
 public:
  static constexpr double kUnit = 0x1p-95;
  static constexpr std::size_t kLimbs = 3;

  FixedSum() = default;

  // The sum of one term. Both conversions are of signed integers, for which there is an instruction.
  static FixedSum of(double term) {
    const double upper = term * 0x1p32;
    const auto whole = static_cast<std::int64_t>(upper);
    const auto rest = static_cast<std::int64_t>((upper - static_cast<double>(whole)) * 0x1p63);
    FixedSum sum;
    sum.units_ = (static_cast<uint128>(whole) << 63) + static_cast<uint128>(rest);
    return sum;
  }

  void operator+=(const FixedSum& other) { units_ += other.units_; }

  double value() const {
    return static_cast<double>(static_cast<std::uint64_t>(units_ >> 64)) * 0x1p-31 +
           static_cast<double>(static_cast<std::uint64_t>(units_)) * kUnit;
  }

  // As integers of which the sums are the limbs of the sum, without carries from one to the next.
  void write_limbs(std::int64_t* limbs) const {
    constexpr std::uint64_t kLow = 0xFFFFFFFFU;
    limbs[0] = static_cast<std::int64_t>(static_cast<std::uint64_t>(units_) & kLow);
    limbs[1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(units_) >> 32);
    limbs[2] = static_cast<std::int64_t>(static_cast<std::uint64_t>(units_ >> 64));
  }

  static FixedSum from_limbs(const std::int64_t* limbs) {
    FixedSum sum;
    for (std::size_t i = 0; i < kLimbs; ++i) sum.units_ += static_cast<uint128>(limbs[i]) << (32 * i);
    return sum;
  }

 private:
  uint128 units_ = 0;
};

}  // namespace headrace
