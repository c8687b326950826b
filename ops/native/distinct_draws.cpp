#include "distinct_draws.hpp"

#include <algorithm>

#include "instruction_set.hpp"
#include "stream.hpp"
#include "stream_variates.hpp"
#include "vector_draws.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {

bool draws_whole_rows() { return best_instruction_set() == InstructionSet::kAvx512; }

#if defined(__x86_64__)

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {

constexpr int kXor3 = 0x96;

// The first sixteen words of an id's stream, in order.
HEADRACE_AVX512 HEADRACE_INLINE __m512i first_words(const StreamKeys& keys, std::uint64_t id) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53LL);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57LL);
  __m256i c0 = _mm256_set1_epi64x(low_word(id));
  __m256i c1 = _mm256_set1_epi64x(high_word(id));
  __m256i c2 = _mm256_setr_epi64x(0, 1, 2, 3);
  __m256i c3 = _mm256_setzero_si256();
  for (int round = 0; round < kStreamRounds; ++round) {
    const __m256i product0 = _mm256_mul_epu32(c0, multiplier0);
    const __m256i product1 = _mm256_mul_epu32(c2, multiplier1);
    const __m256i key0 = _mm256_set1_epi32(static_cast<int>(keys.low[round]));
    const __m256i key1 = _mm256_set1_epi32(static_cast<int>(keys.high[round]));
    c0 = _mm256_ternarylogic_epi32(_mm256_srli_epi64(product1, 32), c1, key0, kXor3);
    c2 = _mm256_ternarylogic_epi32(_mm256_srli_epi64(product0, 32), c3, key1, kXor3);
    c1 = product1;
    c3 = product0;
  }
  // Lane i of c0 to c3 holds words 4 i to 4 i + 3, each in its lower half.
  const __m256i front = _mm256_mask_blend_epi32(0xAA, c0, _mm256_slli_epi64(c1, 32));
  const __m256i back = _mm256_mask_blend_epi32(0xAA, c2, _mm256_slli_epi64(c3, 32));
  const __m512i order = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  return _mm512_permutex2var_epi64(_mm512_castsi256_si512(front), order, _mm512_castsi256_si512(back));
}

HEADRACE_AVX512 HEADRACE_INLINE void store_positions(std::int64_t start, __m512i offsets, std::int64_t* positions) {
  const __m512i first = _mm512_set1_epi64(start);
  const __m512i front = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(offsets));
  const __m512i back = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(offsets, 1));
  _mm512_storeu_si512(positions, _mm512_add_epi64(front, first));
  _mm512_storeu_si512(positions + 8, _mm512_add_epi64(back, first));
}

// The lower halves of sixteen lanes.
HEADRACE_AVX512 HEADRACE_INLINE __m512i narrowed(__m512i front, __m512i back) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(front)), _mm512_cvtepi64_epi32(back), 1);
}

// The lanes that hold what an earlier lane holds.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 repeated_lanes(__m512i values) {
  const __m512i earlier = _mm512_conflict_epi32(values);
  return _mm512_test_epi32_mask(earlier, earlier);
}

}  // namespace

HEADRACE_AVX512 bool draw_distinct(const StreamKeys& keys, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                                   std::uint32_t wanted, std::int64_t* positions) {
  const auto lanes = static_cast<__mmask16>((1U << wanted) - 1U);
  const __m512i words = first_words(keys, id);
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i last = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(degree - wanted)), lane);
  const __m512i range = _mm512_add_epi32(last, _mm512_set1_epi32(1));
  // Lemire's method: the draw is the upper half of word * range, unless the lower half says to repeat it.
  const __mmask16 upper = 0xAAAA;
  const __m512i even = _mm512_mul_epu32(words, range);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), _mm512_srli_epi64(range, 32));
  const __m512i low = _mm512_mask_blend_epi32(upper, even, _mm512_slli_epi64(odd, 32));
  if (_mm512_mask_cmplt_epu32_mask(lanes, low, range) != 0) return false;
  __m512i offsets = _mm512_mask_blend_epi32(upper, _mm512_srli_epi64(even, 32), odd);
  // A draw that was drawn before becomes the last edge that it could have been, which may repeat a later draw.
  do {
    offsets = _mm512_mask_mov_epi32(offsets, lanes & repeated_lanes(offsets), last);
  } while ((lanes & repeated_lanes(offsets)) != 0);
  store_positions(start, offsets, positions);
  return true;
}

HEADRACE_AVX512 std::size_t draw_distinct_by_weight(const StreamKeys& keys, std::uint64_t id, std::int64_t start,
                                                    const std::uint64_t* variates, const double* sums,
                                                    std::size_t degree, std::size_t wanted, std::size_t num_draws,
                                                    std::int64_t* positions) {
  const double total = sums[degree - 1];
  std::uint64_t more[16 + kVariatesSlack];
  std::uint32_t picks[2 * kMostDistinctDraws];
  std::size_t picked = 0;
  for (std::size_t first = 0; first < num_draws && picked < wanted; first += 16) {
    if (first != 0) {
      stream_variates(keys, id, static_cast<std::uint32_t>(first / 2), 16, more, InstructionSet::kAvx512);
      variates = more;
    }
    // A draw hits the edge that comes behind all whose running sums do not exceed its target.
    const __m512d targets[2] = {targets8(_mm512_loadu_si512(variates), total),
                                targets8(_mm512_loadu_si512(variates + 8), total)};
    __m512i hit[2];
    count_sums16(sums, degree, targets, hit);
    const __m512i edges = narrowed(hit[0], hit[1]);
    __mmask16 known = repeated_lanes(edges);
    for (std::size_t i = 0; i < picked; ++i) {
      known |= _mm512_cmpeq_epi32_mask(edges, _mm512_set1_epi32(static_cast<int>(picks[i])));
    }
    const std::size_t left = num_draws - first;
    const auto drawn = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
    const auto fresh = static_cast<__mmask16>(drawn & ~known);
    _mm512_storeu_si512(picks + picked, _mm512_maskz_compress_epi32(fresh, edges));
    picked = std::min(wanted, picked + static_cast<unsigned>(__builtin_popcount(fresh)));
  }
  store_positions(start, _mm512_loadu_si512(picks), positions);
  return picked;
}

HEADRACE_AVX512 std::size_t take_distinct(const std::uint64_t* offsets, std::size_t count, std::size_t wanted,
                                          std::int64_t start, std::int64_t* positions) {
  const unsigned lanes = (1U << count) - 1U;
  const __m512i front = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), offsets);
  const __m512i back = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes >> 8), offsets + 8);
  const __m512i edges = narrowed(front, back);
  const auto fresh = static_cast<__mmask16>(lanes & ~static_cast<unsigned>(repeated_lanes(edges)));
  store_positions(start, _mm512_maskz_compress_epi32(fresh, edges), positions);
  return std::min(wanted, static_cast<std::size_t>(__builtin_popcount(fresh)));
}

#pragma GCC diagnostic pop

#else

bool draw_distinct(const StreamKeys&, std::uint64_t, std::int64_t, std::uint32_t, std::uint32_t, std::int64_t*) {
  return false;
}

std::size_t draw_distinct_by_weight(const StreamKeys&, std::uint64_t, std::int64_t, const std::uint64_t*, const double*,
                                    std::size_t, std::size_t, std::size_t, std::int64_t*) {
  return 0;
}

std::size_t take_distinct(const std::uint64_t*, std::size_t, std::size_t, std::int64_t, std::int64_t*) { return 0; }

#endif

}  // namespace headrace
