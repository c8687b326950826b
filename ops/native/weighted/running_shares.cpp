#include "weighted/running_shares.hpp"

#include <algorithm>
#include <limits>

#include "core/select_smallest.hpp"
#include "random/vector_words.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/vector_shares.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// Of totals below this, products with variates are not as exact as shares are made for.
constexpr double kLeastTotal = 0x1p-960;

// No branch, and nothing but doubles: so the compiler can work on several edges at a time.
HEADRACE_INLINE void shares_of(const double* sums, std::size_t degree, std::uint16_t* shares) {
  const double total = sums[degree - 1];
  const double largest = from_ordered_bits(ordered_bits(total) - 1);
  // Of the last variate whose upper bits are less than these. See unit_interval and target_of.
  const auto target_below = [=](double upper) {
    const double target = (upper * 0x1p-16 - 0x1p-53) * total;
    return target < largest ? target : largest;
  };
  double found[kMostSharedDegree];
  for (std::size_t i = 0; i < degree; ++i) {
    const double sum = sums[i];
    const double guess = (sum / total * 0x1p16 + 0x1p52) - 0x1p52;  // rounded: right or next to it
    double share = guess - (sum <= target_below(guess) ? 1.0 : 0.0) + (sum > target_below(guess + 1.0) ? 1.0 : 0.0);
    share = share > 0.0 ? share : 0.0;
    found[i] = share < double{kLastShare} ? share : double{kLastShare};
  }
  for (std::size_t i = 0; i < degree; ++i) shares[i] = static_cast<std::uint16_t>(static_cast<std::int32_t>(found[i]));
}

// How many of `count` draws are told, from the first one on, where `untold` has a bit for every one that is not.
HEADRACE_INLINE std::size_t count_told(std::uint32_t untold, std::size_t count) {
  return static_cast<unsigned>(__builtin_ctzll(untold | std::uint64_t{1} << count));
}

// Every draw looks at each share.
HEADRACE_INLINE std::size_t find_of(const std::uint16_t* shares, std::size_t degree, const std::uint32_t* words,
                                    std::size_t count, std::uint16_t* offsets) {
  std::uint32_t untold = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t upper = half_word(words, i);
    std::uint16_t num_passed = 0;
    for (std::size_t edge = 0; edge < degree; ++edge) {
      num_passed = static_cast<std::uint16_t>(num_passed + (shares[edge] < upper ? 1 : 0));
    }
    offsets[i] = std::min(num_passed, static_cast<std::uint16_t>(degree - 1));
    untold |= static_cast<std::uint32_t>(shares[offsets[i]] == upper) << i;
  }
  return count_told(untold, count);
}

#if defined(__x86_64__)

HEADRACE_AVX2 void shares_avx2(const double* sums, std::size_t degree, std::uint16_t* shares) {
  shares_of(sums, degree, shares);
}

HEADRACE_AVX2 std::size_t find_avx2(const std::uint16_t* shares, std::size_t degree, const std::uint32_t* words,
                                    std::size_t count, std::uint16_t* offsets) {
  return find_of(shares, degree, words, count, offsets);
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HEADRACE_AVX512 void shares_avx512(const double* sums, std::size_t degree, std::uint16_t* shares) {
  shares_of(sums, degree, shares);
}

// In rows beyond two registers a draw finds the vector that it falls on, and looks at that alone.
HEADRACE_AVX512 HEADRACE_INLINE std::size_t find_vectors(const std::uint16_t* shares, std::size_t degree,
                                                         __m512i uppers, std::size_t count, std::uint16_t* offsets) {
  __m512i firsts = _mm512_setzero_si512();
  for (std::size_t end = kSharesInVector; end < degree; end += kSharesInVector) {
    const __mmask32 passed = _mm512_cmplt_epu16_mask(all_lanes16(shares[end - 1]), uppers);
    firsts = _mm512_mask_add_epi16(firsts, passed, firsts, all_lanes16(kSharesInVector));
  }
  alignas(64) std::uint16_t upper[kSharesInVector];
  alignas(64) std::uint16_t first[kSharesInVector];
  _mm512_store_si512(upper, uppers);
  _mm512_store_si512(first, firsts);
  std::uint32_t untold = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto lanes =
        static_cast<__mmask32>(~std::uint32_t{0} >> (kSharesInVector - std::min(degree - first[i], kSharesInVector)));
    const __m512i vector = _mm512_maskz_loadu_epi16(lanes, shares + first[i]);
    const __mmask32 passed = _mm512_mask_cmplt_epu16_mask(lanes, vector, all_lanes16(upper[i]));
    const std::size_t edge = first[i] + static_cast<unsigned>(__builtin_popcount(passed));
    offsets[i] = static_cast<std::uint16_t>(std::min(edge, degree - 1));
    untold |= static_cast<std::uint32_t>(shares[offsets[i]] == upper[i]) << i;
  }
  return count_told(untold, count);
}

// From the words to the offsets nothing is stored and read again.
HEADRACE_AVX512 std::size_t find_avx512(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                                        const std::uint16_t* shares, std::size_t degree, std::size_t count,
                                        std::uint16_t* offsets) {
  const __m512i upper = words16_from_block(keys, id, first_block);  // two in each word
  if (degree > 2 * kSharesInVector) return find_vectors(shares, degree, upper, count, offsets);
  const FoundEdges found = bisect64(shares, degree, upper);
  _mm512_storeu_si512(offsets, found.edges);
  return count_told(found.untold, count);
}

#pragma GCC diagnostic pop

#endif

}  // namespace

void share_row(EdgeWeights weights, Row row, std::uint16_t* shares, InstructionSet set) {
  const auto degree = static_cast<std::size_t>(row.degree);
  double sums[kMostSharedDegree];
  sum_row(weights, row, sums);
  const double total = sums[degree - 1];
  if (!(total >= kLeastTotal && total <= std::numeric_limits<double>::max())) {
    std::fill(shares, shares + degree, std::uint16_t{0});
    return;
  }
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return shares_avx512(sums, degree, shares);
  if (set == InstructionSet::kAvx2) return shares_avx2(sums, degree, shares);
#endif
  static_cast<void>(set);
  shares_of(sums, degree, shares);
}

std::size_t find_by_shares(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                           const std::uint16_t* shares, std::size_t degree, std::size_t count, std::uint16_t* offsets,
                           InstructionSet set) {
  if (shares[degree - 1] != kLastShare) return 0;
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return find_avx512(keys, id, first_block, shares, degree, count, offsets);
#endif
  std::uint32_t words[kMostSharedDraws / 2 + kWordsSlack];
  stream_words(keys, id, first_block, (count + 1) / 2, words, set);
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx2) return find_avx2(shares, degree, words, count, offsets);
#endif
  return find_of(shares, degree, words, count, offsets);
}

}  // namespace headrace
