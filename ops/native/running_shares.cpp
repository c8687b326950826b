#include "running_shares.hpp"

#include <algorithm>
#include <limits>

#include "parallel.hpp"
#include "running_sums.hpp"
#include "unit_interval.hpp"
#include "vector_words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr unsigned kLowerBits = 48;      // of a variate, which its share lacks
constexpr unsigned kLowerWordBits = 16;  // of its upper word
constexpr std::uint16_t kLastShare = std::numeric_limits<std::uint16_t>::max();

// How many of `count` draws are told, from the first one on, where `untold` has a bit for every one that is not.
HEADRACE_INLINE std::size_t count_told(std::uint32_t untold, std::size_t count) {
  const auto told = static_cast<unsigned>(__builtin_ctzll(untold | std::uint64_t{1} << count));
  return told == count ? count : told / 4 * 4;  // whole blocks of words, where the sums go on
}

// Every draw looks at each share.
HEADRACE_INLINE std::size_t find_of(const std::uint16_t* shares, std::size_t degree, const std::uint32_t* words,
                                    std::size_t count, std::uint16_t* offsets) {
  std::uint32_t untold = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto upper = static_cast<std::uint16_t>(words[i] >> kLowerWordBits);
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

HEADRACE_AVX2 std::size_t find_avx2(const std::uint16_t* shares, std::size_t degree, const std::uint32_t* words,
                                    std::size_t count, std::uint16_t* offsets) {
  return find_of(shares, degree, words, count, offsets);
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

constexpr std::size_t kLanes = 32;  // shares in a vector

HEADRACE_AVX512 HEADRACE_INLINE __m512i broadcast16(std::size_t value) {
  return _mm512_set1_epi16(static_cast<short>(value));
}

// The upper halves of 32 words.
HEADRACE_AVX512 HEADRACE_INLINE __m512i upper_halves(const Words32& words) {
  const __m512i front = _mm512_srli_epi32(words.front, kLowerWordBits);
  const __m512i back = _mm512_srli_epi32(words.back, kLowerWordBits);
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(front)), _mm512_cvtepi32_epi16(back), 1);
}

// Rows of at most 64 edges stay in two registers, and 32 draws search them in step by bisection.
HEADRACE_AVX512 HEADRACE_INLINE std::size_t bisect(const std::uint16_t* shares, std::size_t degree, __m512i upper,
                                                   std::size_t count, std::uint16_t* offsets) {
  const std::uint64_t lanes = ~std::uint64_t{0} >> (64 - degree);
  const __m512i none = _mm512_set1_epi16(-1);  // before the first edge; and shares that nothing passes
  const __m512i front = _mm512_mask_loadu_epi16(none, static_cast<__mmask32>(lanes), shares);
  const __m512i back = _mm512_mask_loadu_epi16(none, static_cast<__mmask32>(lanes >> kLanes), shares + kLanes);
  const __m512i middle = broadcast16(kLanes - 1);
  __m512i last_passed =
      _mm512_mask_mov_epi16(none, _mm512_cmplt_epu16_mask(_mm512_permutexvar_epi16(middle, front), upper), middle);
#pragma GCC unroll 5
  for (std::size_t step = kLanes / 2; step > 0; step /= 2) {
    const __m512i edge = _mm512_add_epi16(last_passed, broadcast16(step));
    const __m512i share = _mm512_permutex2var_epi16(front, edge, back);
    last_passed = _mm512_mask_mov_epi16(last_passed, _mm512_cmplt_epu16_mask(share, upper), edge);
  }
  const __m512i edges = _mm512_add_epi16(last_passed, broadcast16(1));
  const __mmask32 untold = _mm512_cmpeq_epu16_mask(_mm512_permutex2var_epi16(front, edges, back), upper);
  _mm512_storeu_si512(offsets, edges);
  return count_told(untold, count);
}

// In longer ones a draw finds the vector that it falls on, and looks at that alone.
HEADRACE_AVX512 HEADRACE_INLINE std::size_t find_vectors(const std::uint16_t* shares, std::size_t degree,
                                                         __m512i uppers, std::size_t count, std::uint16_t* offsets) {
  __m512i firsts = _mm512_setzero_si512();
  for (std::size_t end = kLanes; end < degree; end += kLanes) {
    const __mmask32 passed = _mm512_cmplt_epu16_mask(broadcast16(shares[end - 1]), uppers);
    firsts = _mm512_mask_add_epi16(firsts, passed, firsts, broadcast16(kLanes));
  }
  alignas(64) std::uint16_t upper[kLanes];
  alignas(64) std::uint16_t first[kLanes];
  _mm512_store_si512(upper, uppers);
  _mm512_store_si512(first, firsts);
  std::uint32_t untold = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto lanes = static_cast<__mmask32>(~std::uint32_t{0} >> (kLanes - std::min(degree - first[i], kLanes)));
    const __m512i vector = _mm512_maskz_loadu_epi16(lanes, shares + first[i]);
    const __mmask32 passed = _mm512_mask_cmplt_epu16_mask(lanes, vector, broadcast16(upper[i]));
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
  const __m512i upper = upper_halves(words_from_block(keys, id, first_block));
  return degree <= 2 * kLanes ? bisect(shares, degree, upper, count, offsets)
                              : find_vectors(shares, degree, upper, count, offsets);
}

#pragma GCC diagnostic pop

#endif

}  // namespace

void share_row(EdgeWeights weights, Row row, std::uint16_t* shares) {
  const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
  double total = 0.0;
  for (std::int64_t e = row.start; e < stop; ++e) total += weights[e];
  if (!(total > 0.0 && total <= std::numeric_limits<double>::max())) {
    std::fill(shares, shares + row.degree, std::uint16_t{0});
    return;
  }
  double sum = 0.0;
  for (std::int64_t e = row.start; e < stop; ++e) {
    sum += weights[e];
    const auto passes = [&](std::uint64_t variate) { return sum <= target_of(unit_interval(variate), total); };
    // A guess, right but for rounding.
    auto share = static_cast<std::uint64_t>(std::min(std::max(0.0, sum / total * 0x1p16), double{kLastShare}));
    while (share > 0 && passes((share << kLowerBits) - 1)) --share;
    while (share < kLastShare && !passes(((share + 1) << kLowerBits) - 1)) ++share;
    *shares++ = static_cast<std::uint16_t>(share);
  }
}

void share_rows(const std::int64_t* indptr, std::size_t num_nodes, std::size_t num_edges, EdgeWeights weights,
                std::uint16_t* shares, int num_threads) {
  const auto num_parts = static_cast<std::size_t>(std::max(num_threads, 1));
  const CscView<std::int32_t> rows{indptr, num_nodes, nullptr, num_edges};
  parallel_for(num_threads, num_parts, [&](std::size_t part) {
    const std::size_t end = part_bound(num_nodes, num_parts, part + 1);
    for (std::size_t v = part_bound(num_nodes, num_parts, part); v < end; ++v) {
      const Row row = rows.row(static_cast<std::int64_t>(v));
      if (row.degree != 0 && row.degree <= kMostSharedDegree) share_row(weights, row, shares + row.start);
    }
  });
}

std::size_t find_by_shares(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                           const std::uint16_t* shares, std::size_t degree, std::size_t count, std::uint16_t* offsets,
                           InstructionSet set) {
  if (shares[degree - 1] != kLastShare) return 0;
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return find_avx512(keys, id, first_block, shares, degree, count, offsets);
#endif
  std::uint32_t words[kMostSharedDraws + kWordsSlack];
  stream_words(keys, id, first_block, count, words, set);
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx2) return find_avx2(shares, degree, words, count, offsets);
#endif
  return find_of(shares, degree, words, count, offsets);
}

}  // namespace headrace
