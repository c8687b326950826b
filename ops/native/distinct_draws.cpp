#include "distinct_draws.hpp"

#include "stream.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

#if defined(__x86_64__)

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// The first sixteen words of an id's stream, in order.
HEADRACE_AVX512 HEADRACE_INLINE __m512i first_words(std::uint64_t key, std::uint64_t id) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53LL);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57LL);
  __m256i c0 = _mm256_set1_epi64x(low_word(id));
  __m256i c1 = _mm256_set1_epi64x(high_word(id));
  __m256i c2 = _mm256_setr_epi64x(0, 1, 2, 3);
  __m256i c3 = _mm256_setzero_si256();
  __m256i key0 = _mm256_set1_epi64x(low_word(key));
  __m256i key1 = _mm256_set1_epi64x(high_word(key));
  const __m256i step0 = _mm256_set1_epi64x(0x9E3779B9LL);
  const __m256i step1 = _mm256_set1_epi64x(0xBB67AE85LL);
  for (int round = 0; round < 10; ++round) {
    constexpr int kXor3 = 0x96;
    const __m256i product0 = _mm256_mul_epu32(c0, multiplier0);
    const __m256i product1 = _mm256_mul_epu32(c2, multiplier1);
    c0 = _mm256_ternarylogic_epi64(_mm256_srli_epi64(product1, 32), c1, key0, kXor3);
    c2 = _mm256_ternarylogic_epi64(_mm256_srli_epi64(product0, 32), c3, key1, kXor3);
    key0 = _mm256_add_epi64(key0, step0);
    key1 = _mm256_add_epi64(key1, step1);
    c1 = product1;
    c3 = product0;
  }
  // Lane i of c0 to c3 holds words 4 i to 4 i + 3, each in its lower half.
  const __m256i front = _mm256_mask_blend_epi32(0xAA, c0, _mm256_slli_epi64(c1, 32));
  const __m256i back = _mm256_mask_blend_epi32(0xAA, c2, _mm256_slli_epi64(c3, 32));
  const __m512i order = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  return _mm512_permutex2var_epi64(_mm512_castsi256_si512(front), order, _mm512_castsi256_si512(back));
}

HEADRACE_AVX512 bool draw_avx512(std::uint64_t key, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                                 std::uint32_t count, std::int64_t* positions) {
  const auto wanted = static_cast<__mmask16>((1U << count) - 1U);
  const __m512i words = first_words(key, id);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i last = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(degree - count)), lanes);
  const __m512i range = _mm512_add_epi32(last, _mm512_set1_epi32(1));
  // Lemire's method: the draw is the upper half of word * range, unless the lower half says to repeat it.
  const __m512i even = _mm512_mul_epu32(words, range);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), _mm512_srli_epi64(range, 32));
  const __m512i low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  if (_mm512_mask_cmplt_epu32_mask(wanted, low, range) != 0) return false;
  __m512i offsets = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  // A draw that was drawn before becomes the last edge that it could have been, which may repeat a later draw.
  for (;;) {
    const __m512i earlier = _mm512_conflict_epi32(offsets);
    const __mmask16 repeated = _mm512_mask_test_epi32_mask(wanted, earlier, earlier);
    offsets = _mm512_mask_mov_epi32(offsets, repeated, last);
    const __m512i again = _mm512_conflict_epi32(offsets);
    if (_mm512_mask_test_epi32_mask(wanted, again, again) == 0) break;
  }
  const __m512i first = _mm512_set1_epi64(start);
  const __m512i front = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(offsets));
  const __m512i back = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(offsets, 1));
  _mm512_storeu_si512(positions, _mm512_add_epi64(front, first));
  _mm512_storeu_si512(positions + 8, _mm512_add_epi64(back, first));
  return true;
}

#pragma GCC diagnostic pop

#endif

}  // namespace

bool draw_distinct(std::uint64_t key, std::uint64_t id, std::int64_t start, std::uint32_t degree, std::uint32_t count,
                   std::int64_t* positions) {
#if defined(__x86_64__)
  if (best_instruction_set() == InstructionSet::kAvx512) return draw_avx512(key, id, start, degree, count, positions);
#endif
  return false;
}

}  // namespace headrace
