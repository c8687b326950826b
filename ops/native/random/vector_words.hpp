// The words of a stream in vectors of AVX-512.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

#include "core/instruction_set.hpp"
#include "random/stream_words.hpp"

namespace headrace {

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

constexpr int kXor3 = 0x96;  // of _mm512_ternarylogic

struct Words32 {
  __m512i front;
  __m512i back;
};

// The words of eight blocks that follow each other, of the id's stream. One block in each 64-bit lane, whose upper half
// holds leftovers that the 32 x 32 bit multiplication does not read.
HEADRACE_AVX512 HEADRACE_INLINE Words32 words_from_block(const StreamKeys& keys, std::uint64_t id,
                                                         std::uint32_t first_block) {
  const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53LL);
  const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57LL);
  __m512i c0 = _mm512_set1_epi64(low_word(id));
  __m512i c1 = _mm512_set1_epi64(high_word(id));
  __m512i c2 = _mm512_add_epi64(_mm512_set1_epi64(first_block), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  __m512i c3 = _mm512_setzero_si512();
  for (int round = 0; round < kStreamRounds; ++round) {
    const __m512i product0 = _mm512_mul_epu32(c0, multiplier0);
    const __m512i product1 = _mm512_mul_epu32(c2, multiplier1);
    const __m512i key0 = _mm512_set1_epi32(static_cast<int>(keys.low[round]));
    const __m512i key1 = _mm512_set1_epi32(static_cast<int>(keys.high[round]));
    c0 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product1, 32), c1, key0, kXor3);
    c2 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(product0, 32), c3, key1, kXor3);
    c1 = product1;
    c3 = product0;
  }
  const __mmask16 upper = 0xAAAA;
  const __m512i fronts = _mm512_mask_blend_epi32(upper, c0, _mm512_slli_epi64(c1, 32));
  const __m512i backs = _mm512_mask_blend_epi32(upper, c2, _mm512_slli_epi64(c3, 32));
  return {_mm512_permutex2var_epi64(fronts, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), backs),
          _mm512_permutex2var_epi64(fronts, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), backs)};
}

// Those of four blocks, in vectors of half the width: where no more are wanted that takes half the time.
HEADRACE_AVX512 HEADRACE_INLINE __m512i words16_from_block(const StreamKeys& keys, std::uint64_t id,
                                                           std::uint32_t first_block) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53LL);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57LL);
  __m256i c0 = _mm256_set1_epi64x(low_word(id));
  __m256i c1 = _mm256_set1_epi64x(high_word(id));
  __m256i c2 = _mm256_add_epi64(_mm256_set1_epi64x(first_block), _mm256_setr_epi64x(0, 1, 2, 3));
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

#pragma GCC diagnostic pop

}  // namespace headrace

#endif
