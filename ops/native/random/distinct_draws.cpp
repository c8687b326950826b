#include "random/distinct_draws.hpp"

#include "core/instruction_set.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {

bool draws_in_vectors() { return best_instruction_set() == InstructionSet::kAvx512; }

#ifdef HEADRACE_X86

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {

constexpr int kXor3 = 0x96;  // of _mm512_ternarylogic

// The first sixteen words of the id's stream: one of four blocks in each 64-bit lane, whose upper half holds leftovers
// that the 32 x 32 bit multiplication does not read.
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

// The lanes that hold what an earlier lane holds.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 repeated_lanes(__m512i values) {
  const __m512i earlier = _mm512_conflict_epi32(values);
  return _mm512_test_epi32_mask(earlier, earlier);
}

// Write the positions of the offsets of a row that begins at `start`.
HEADRACE_AVX512 HEADRACE_INLINE void store_positions(std::int64_t start, __m512i offsets, std::int64_t* positions) {
  const __m512i first = _mm512_set1_epi64(start);
  const __m512i front = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(offsets));
  const __m512i back = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(offsets, 1));
  _mm512_storeu_si512(positions, _mm512_add_epi64(front, first));
  _mm512_storeu_si512(positions + 8, _mm512_add_epi64(back, first));
}

// The lanes whose draw is picked already, in the order of the lanes, where lane i picks `last_of_first` + i in
// place of such a draw: the last edge that it could have drawn. So a draw is picked already if an earlier lane drew it
// (were that lane replaced, its draw was picked even before), or if it is the last edge of an earlier lane that is
// replaced. The latter takes a shift, where to look for repeated lanes again takes twenty cycles on Intel processors.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 replaced_lanes(__m512i draws, __mmask16 lanes, std::uint32_t last_of_first) {
  const __m512i one = _mm512_set1_epi32(1);
  // The lane whose last edge a draw is; of other draws a negative number, by which a shift leaves nothing.
  const __m512i lanes_of_last = _mm512_sub_epi32(draws, _mm512_set1_epi32(static_cast<int>(last_of_first)));
  auto replaced = static_cast<__mmask16>(lanes & repeated_lanes(draws));
  for (;;) {
    const __m512i replaced_there = _mm512_srlv_epi32(_mm512_set1_epi32(replaced), lanes_of_last);
    const auto all = static_cast<__mmask16>(replaced | _mm512_mask_test_epi32_mask(lanes, replaced_there, one));
    if (all == replaced) return replaced;
    replaced = all;
  }
}

}  // namespace

HEADRACE_AVX512 bool draw_distinct(const StreamKeys& keys, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                                   std::uint32_t wanted, std::int64_t* positions) {
  const __mmask16 lanes = static_cast<__mmask16>((1U << wanted) - 1U);
  const __m512i words = first_words(keys, id);
  const __m512i lane_numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i last = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(degree - wanted)), lane_numbers);
  const __m512i range = _mm512_add_epi32(last, _mm512_set1_epi32(1));
  // Lemire's method: the draw is the upper half of word * range, unless the lower half says to repeat it.
  const __mmask16 upper = 0xAAAA;
  const __m512i even = _mm512_mul_epu32(words, range);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), _mm512_srli_epi64(range, 32));
  const __m512i low = _mm512_mask_blend_epi32(upper, even, _mm512_slli_epi64(odd, 32));
  if (_mm512_mask_cmplt_epu32_mask(lanes, low, range) != 0) return false;
  const __m512i draws = _mm512_mask_blend_epi32(upper, _mm512_srli_epi64(even, 32), odd);
  const __mmask16 replaced = replaced_lanes(draws, lanes, degree - wanted);
  const __m512i offsets = _mm512_mask_mov_epi32(draws, replaced, last);
  store_positions(start, offsets, positions);
  return true;
}

#pragma GCC diagnostic pop

#else

bool draw_distinct(const StreamKeys&, std::uint64_t, std::int64_t, std::uint32_t, std::uint32_t, std::int64_t*) {
  return false;
}

#endif

}  // namespace headrace
