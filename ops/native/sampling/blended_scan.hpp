// The scan of labor_scan.hpp for variates that are blended of two: most edges are decided without blending.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "random/variate_keys.hpp"

namespace headrace {

// How large the second variate may be, by the first, for what they blend to to be at most a bound. Of the first the
// upper bits count, and bounds are rounded up to four in an octave, of which each has a table once it is asked for.
// Roundings of the tables are on the safe side, so that no machine leaves out what another finds.
class BlendLimits {
 public:
  static constexpr int kBits = 7;

  explicit BlendLimits(Turn turn) : turn_(turn) {}

  // High words of the second, by the upper bits of the first: larger ones are too large. Valid until the next call.
  const std::uint32_t* of(std::uint32_t bound);

 private:
  std::vector<std::uint32_t> table(double probability) const;

  Turn turn_;
  std::vector<std::vector<std::uint32_t>> tables_;
};

template <class Index>
class BlendedScan {
 public:
  explicit BlendedScan(const VariateKeys& keys) : keys_(keys), limits_(keys.turn) {}

  // As scan_variates of labor_scan.hpp.
  std::size_t operator()(const Index* ids, std::size_t num_ids, std::uint32_t bound, std::uint32_t* high,
                         std::uint32_t* offsets);

 private:
  VariateKeys keys_;
  BlendLimits limits_;
};

}  // namespace headrace
