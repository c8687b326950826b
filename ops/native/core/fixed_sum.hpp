// Sums of numbers of [0, 1] that do not depend on the order of their terms, and so not on who adds which of them. They
// are what decisions hang on that threads, processes or devices take apart and must take alike.
//
// Terms are rounded to integers, which are added exactly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/wide.hpp"

namespace headrace {

// In multiples of 2^-95; there is room for 2^31 terms of 1.
class FixedSum {
 public:
  static constexpr std::size_t kLimbs = 3;

  FixedSum() = default;

  // The square of a number, of which no more than 62 bits behind the point count; not less than 2^-94. What is not in
  // [0, 1], as damaged weights may give, is put there.
  static FixedSum square_of(double number) {
    const double inside = std::min(1.0, std::max(0x1p-47, number));  // of NaN and another, max takes the first
    const auto scaled = static_cast<std::uint64_t>(static_cast<std::int64_t>(inside * 0x1p62));
    return FixedSum(static_cast<uint128>(scaled) * scaled >> 29);
  }

  // `count` times 2^-52.
  static FixedSum of_small(std::uint64_t count) { return FixedSum(static_cast<uint128>(count) << 43); }

  void operator+=(const FixedSum& other) { units_ += other.units_; }

  // Both conversions are of signed integers, for which there is an instruction.
  double value() const {
    constexpr std::uint64_t kLow = 0x7FFFFFFFFFFFFFFFU;
    return static_cast<double>(static_cast<std::int64_t>(units_ >> 63)) * 0x1p-32 +
           static_cast<double>(static_cast<std::int64_t>(static_cast<std::uint64_t>(units_) & kLow)) * 0x1p-95;
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
  explicit FixedSum(uint128 units) : units_(units) {}

  uint128 units_ = 0;
};

// The sum of term(0), ..., term(count - 1), numbers of [0, 1], each rounded to the next multiple of 2^-52. No
// conversion and no branch: such multiples follow each other as the bits of the numbers from 1 to 2 do.
template <class Term>
FixedSum fixed_sum(std::size_t count, const Term& term) {
  constexpr std::size_t kBlock = 1024;  // 64 bits hold four times as many terms
  constexpr std::uint64_t kBitsOfOne = 0x3FF0000000000000U;
  FixedSum sum;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    std::uint64_t block = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const double number = 1.0 + term(i);
      std::uint64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      block += bits - kBitsOfOne;
    }
    sum += FixedSum::of_small(block);
  }
  return sum;
}

}  // namespace headrace
