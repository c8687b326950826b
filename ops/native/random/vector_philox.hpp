// Rounds of Philox4x32 (philox.hpp) in vectors: one counter in each 64-bit lane, a 32-bit word in each lower half.
// Upper halves hold leftovers, which the 32 x 32 bit multiplication does not read.
#pragma once

#include "core/instruction_set.hpp"

#ifdef HEADRACE_X86

#include <immintrin.h>

#include <cstdint>

namespace headrace {

// Four ids, each in 64 bits.
HEADRACE_AVX2 HEADRACE_INLINE __m256i load4(const std::int32_t* ids) {
  return _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(ids)));
}

HEADRACE_AVX2 HEADRACE_INLINE __m256i load4(const std::int64_t* ids) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ids));
}

HEADRACE_AVX2 HEADRACE_INLINE void philox_round(__m256i& c0, __m256i& c1, __m256i& c2, __m256i& c3, __m256i key0,
                                                __m256i key1) {
  const __m256i product0 = _mm256_mul_epu32(c0, _mm256_set1_epi64x(0xD2511F53LL));
  const __m256i product1 = _mm256_mul_epu32(c2, _mm256_set1_epi64x(0xCD9E8D57LL));
  c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1), key0);
  c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3), key1);
  c1 = product1;
  c3 = product0;
}

}  // namespace headrace

#endif
