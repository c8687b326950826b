#include "stream_variates.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

void variates_portable(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                       std::uint64_t* out) {
  for (std::size_t i = 0; i < count; i += 2) {
    const PhiloxCounter words = stream_block(keys.key, id, first_block + static_cast<std::uint32_t>(i / 2));
    out[i] = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
    out[i + 1] = static_cast<std::uint64_t>(words[2]) << 32 | words[3];
  }
}

#if defined(__x86_64__)

// Philox4x32-10 of the counters (id low, id high, block, 0) for one block in each 64-bit lane, whose upper half holds
// leftovers that the 32 x 32 bit multiplication does not read. Blocks are numbered modulo 2^32.

HEADRACE_AVX2 void variates_avx2(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                                 std::uint64_t* out) {
  const __m256i multiplier0 = _mm256_set1_epi64x(0xD2511F53LL);
  const __m256i multiplier1 = _mm256_set1_epi64x(0xCD9E8D57LL);
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFFLL);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(i / 2);
    __m256i c0 = _mm256_set1_epi64x(low_word(id));
    __m256i c1 = _mm256_set1_epi64x(high_word(id));
    __m256i c2 = _mm256_add_epi64(_mm256_set1_epi64x(block), _mm256_setr_epi64x(0, 1, 2, 3));
    __m256i c3 = _mm256_setzero_si256();
    for (int round = 0; round < kStreamRounds; ++round) {
      const __m256i product0 = _mm256_mul_epu32(c0, multiplier0);
      const __m256i product1 = _mm256_mul_epu32(c2, multiplier1);
      c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product1, 32), c1),
                            _mm256_set1_epi32(static_cast<int>(keys.low[round])));
      c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(product0, 32), c3),
                            _mm256_set1_epi32(static_cast<int>(keys.high[round])));
      c1 = product1;
      c3 = product0;
    }
    const __m256i even = _mm256_or_si256(_mm256_slli_epi64(c0, 32), _mm256_and_si256(c1, low_half));
    const __m256i odd = _mm256_or_si256(_mm256_slli_epi64(c2, 32), _mm256_and_si256(c3, low_half));
    const __m256i low = _mm256_unpacklo_epi64(even, odd);
    const __m256i high = _mm256_unpackhi_epi64(even, odd);
    auto* const place = reinterpret_cast<__m256i*>(out + i);
    _mm256_storeu_si256(place, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(place + 1, _mm256_permute2x128_si256(low, high, 0x31));
  }
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HEADRACE_AVX512 void variates_avx512(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                                     std::size_t count, std::uint64_t* out) {
  constexpr int kXor3 = 0x96;
  const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53LL);
  const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57LL);
  const __m512i low_half = _mm512_set1_epi64(0xFFFFFFFFLL);
  const __m512i front = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i back = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  for (std::size_t i = 0; i < count; i += 16) {
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(i / 2);
    __m512i c0 = _mm512_set1_epi64(low_word(id));
    __m512i c1 = _mm512_set1_epi64(high_word(id));
    __m512i c2 = _mm512_add_epi64(_mm512_set1_epi64(block), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
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
    const __m512i even = _mm512_or_si512(_mm512_slli_epi64(c0, 32), _mm512_and_si512(c1, low_half));
    const __m512i odd = _mm512_or_si512(_mm512_slli_epi64(c2, 32), _mm512_and_si512(c3, low_half));
    _mm512_storeu_si512(out + i, _mm512_permutex2var_epi64(even, front, odd));
    _mm512_storeu_si512(out + i + 8, _mm512_permutex2var_epi64(even, back, odd));
  }
}

#pragma GCC diagnostic pop

#endif

}  // namespace

void stream_variates(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                     std::uint64_t* out, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return variates_avx512(keys, id, first_block, count, out);
  if (set == InstructionSet::kAvx2) return variates_avx2(keys, id, first_block, count, out);
#endif
  static_cast<void>(set);
  variates_portable(keys, id, first_block, count, out);
}

}  // namespace headrace
