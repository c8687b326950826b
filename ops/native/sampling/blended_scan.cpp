#include "sampling/blended_scan.hpp"

#include <algorithm>

#include "random/labor_variates.hpp"
#include "random/normal.hpp"

namespace headrace {

const std::uint32_t* BlendLimits::of(std::uint32_t bound) {
  const std::uint64_t above = std::uint64_t{bound} + 1;
  unsigned shift = 0;
  while (above >> shift >= 8) ++shift;
  const std::uint64_t rounded = (above + (std::uint64_t{1} << shift) - 1) >> shift;  // at most 8
  const auto place = static_cast<std::size_t>(8 * shift + rounded);
  if (tables_.size() <= place) tables_.resize(place + 1);
  if (tables_[place].empty()) tables_[place] = table(static_cast<double>(rounded << shift) * 0x1p-32);
  return tables_[place].data();
}

std::vector<std::uint32_t> BlendLimits::table(double probability) const {
  constexpr double kMargin = 1e-9;  // far above all errors of rounding
  constexpr double kMost = 30.0;    // Phi is 1 here
  std::vector<std::uint32_t> limits(std::size_t{1} << kBits, ~0U);
  if (probability >= 1.0) return limits;
  const double most = normal_quantile(probability) + kMargin;
  for (std::size_t first = 1; first < limits.size(); ++first) {
    const double least = turn_.cosine * normal_quantile(static_cast<double>(first) / (1 << kBits));
    const double other = std::max(-kMost, std::min(kMost, (most - least) / turn_.sine));
    const std::uint32_t limit = high_word(normal_variate(other));
    limits[first] = limit == ~0U ? limit : limit + 1;
  }
  return limits;
}

template <class Index>
std::size_t BlendedScan<Index>::operator()(const Index* ids, std::size_t num_ids, std::uint32_t bound,
                                           std::uint32_t* high, std::uint32_t* offsets) {
  constexpr std::size_t kChunk = 16 * kVariatesAtOnce;
  std::uint64_t first[kChunk];
  std::uint64_t second[kChunk];
  std::uint32_t left[kChunk];
  const std::uint32_t* const limits = limits_.of(bound);
  std::size_t found = 0;
  for (std::size_t begin = 0; begin < num_ids; begin += kChunk) {
    const std::size_t size = std::min(kChunk, num_ids - begin);
    labor_variates(keys_.key, ids + begin, size, first);
    labor_variates(keys_.next_key, ids + begin, size, second);
    std::size_t num_left = 0;
    for (std::size_t i = 0; i < size; ++i) {
      left[num_left] = static_cast<std::uint32_t>(i);
      num_left += high_word(second[i]) <= limits[first[i] >> (64 - BlendLimits::kBits)] ? 1 : 0;
    }
    for (std::size_t k = 0; k < num_left; ++k) {
      const std::uint32_t i = left[k];
      high[found] = high_word(blended_variate(first[i], second[i], keys_.turn));
      offsets[found] = static_cast<std::uint32_t>(begin) + i;
      found += high[found] <= bound ? 1 : 0;
    }
  }
  return found;
}

template class BlendedScan<std::int32_t>;
template class BlendedScan<std::int64_t>;

}  // namespace headrace
