#include "random/stream_variates.hpp"

#include <algorithm>

#include "random/vector_philox.hpp"
#include "random/vector_words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::size_t kVariatesAtOnce = 2 * kVariatesInBlock;

// What kVariatesAtOnce variates are made of.
struct PartsOfVariates {
  std::uint32_t high[kVariatesAtOnce];  // their words of the first stream, then those of the second
  std::uint32_t low[kVariatesAtOnce];
};

HEADRACE_INLINE void put_together(const PartsOfVariates& parts, std::uint64_t* out) {
  for (std::size_t i = 0; i < kVariatesAtOnce; ++i) {
    const std::uint64_t upper = half_word(parts.high, i);
    const std::uint64_t middle = half_word(parts.high, kVariatesAtOnce + i);
    out[i] = upper << 48 | middle << 32 | parts.low[i];
  }
}

void words_portable(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::uint32_t number,
                    std::size_t count, std::uint32_t* out) {
  for (std::size_t i = 0; i < count; i += 4) {
    const PhiloxCounter words = stream_block(keys.key, id, first_block + static_cast<std::uint32_t>(i / 4), number);
    std::copy(words.begin(), words.end(), out + i);
  }
}

void variates_portable(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                       std::uint64_t* out) {
  for (std::size_t i = 0; i < count; i += kVariatesAtOnce) {
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(i / kVariatesInBlock);
    PartsOfVariates parts;
    words_portable(keys, id, block, 0, kVariatesAtOnce / 2, parts.high);
    words_portable(keys, id, block, 1, kVariatesAtOnce / 2, parts.high + kVariatesAtOnce / 2);
    words_portable(keys, id, 2 * block, 2, kVariatesAtOnce, parts.low);
    put_together(parts, out + i);
  }
}

#if defined(__x86_64__)

// Philox4x32-10 of the counters (id low, id high, block, number) for one block in each 64-bit lane, whose upper half
// holds leftovers that the 32 x 32 bit multiplication does not read. Blocks are numbered modulo 2^32.

// The words of four blocks. Not shared with words16_of_blocks: where GCC itself makes one operation of two XORs it
// loads round keys apart, 1 % of a uniform batch.
HEADRACE_AVX2 HEADRACE_INLINE void words16_avx2(const StreamKeys& keys, std::uint64_t id, __m256i blocks,
                                                __m256i numbers, std::uint32_t* out) {
  __m256i c0 = _mm256_set1_epi64x(low_word(id));
  __m256i c1 = _mm256_set1_epi64x(high_word(id));
  __m256i c2 = blocks;
  __m256i c3 = numbers;
  for (int round = 0; round < kStreamRounds; ++round) {
    philox_round(c0, c1, c2, c3, _mm256_set1_epi32(static_cast<int>(keys.low[round])),
                 _mm256_set1_epi32(static_cast<int>(keys.high[round])));
  }
  const __m256i front = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);
  const __m256i back = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
  const __m256i low = _mm256_unpacklo_epi64(front, back);
  const __m256i high = _mm256_unpackhi_epi64(front, back);
  auto* const place = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(place, _mm256_permute2x128_si256(low, high, 0x20));
  _mm256_storeu_si256(place + 1, _mm256_permute2x128_si256(low, high, 0x31));
}

HEADRACE_AVX2 void words_avx2(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                              std::uint32_t* out) {
  for (std::size_t i = 0; i < count; i += 16) {
    const __m256i first = _mm256_set1_epi64x(first_block + static_cast<std::uint32_t>(i / 4));
    words16_avx2(keys, id, _mm256_add_epi64(first, _mm256_setr_epi64x(0, 1, 2, 3)), _mm256_setzero_si256(), out + i);
  }
}

HEADRACE_AVX2 void variates_avx2(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                                 std::uint64_t* out) {
  for (std::size_t i = 0; i < count; i += kVariatesAtOnce) {
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(i / kVariatesInBlock);
    PartsOfVariates parts;
    words16_avx2(keys, id, _mm256_add_epi64(_mm256_set1_epi64x(block), _mm256_setr_epi64x(0, 1, 0, 1)),
                 _mm256_setr_epi64x(0, 0, 1, 1), parts.high);
    words16_avx2(keys, id, _mm256_add_epi64(_mm256_set1_epi64x(2 * block), _mm256_setr_epi64x(0, 1, 2, 3)),
                 _mm256_set1_epi64x(2), parts.low);
    put_together(parts, out + i);
  }
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HEADRACE_AVX512 void words_avx512(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                                  std::size_t count, std::uint32_t* out) {
  for (std::size_t i = 0; i < count; i += 32) {
    const Words32 words = words_from_block(keys, id, first_block + static_cast<std::uint32_t>(i / 4));
    _mm512_storeu_si512(out + i, words.front);
    _mm512_storeu_si512(out + i + 16, words.back);
  }
}

// All of sixteen variates is one pass.
HEADRACE_AVX512 void variates_avx512(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block,
                                     std::size_t count, std::uint64_t* out) {
  const __m512i numbers = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 2, 2);
  for (std::size_t i = 0; i < count; i += kVariatesAtOnce) {
    const std::uint32_t block = first_block + static_cast<std::uint32_t>(i / kVariatesInBlock);
    const __m512i first = _mm512_mask_blend_epi64(0xF0, _mm512_set1_epi64(block), _mm512_set1_epi64(2 * block));
    const __m512i blocks = _mm512_add_epi64(first, _mm512_setr_epi64(0, 1, 0, 1, 0, 1, 2, 3));
    const Words32 words = words_of_blocks(keys, id, blocks, numbers);
    const __m256i upper = _mm512_castsi512_si256(words.front);
    const __m256i middle = _mm512_extracti64x4_epi64(words.front, 1);
    for (int k = 0; k < 2; ++k) {
      const __m128i upper8 = k == 0 ? _mm256_castsi256_si128(upper) : _mm256_extracti128_si256(upper, 1);
      const __m128i middle8 = k == 0 ? _mm256_castsi256_si128(middle) : _mm256_extracti128_si256(middle, 1);
      const __m256i lower8 = k == 0 ? _mm512_castsi512_si256(words.back) : _mm512_extracti64x4_epi64(words.back, 1);
      const __m512i high = _mm512_or_si512(_mm512_slli_epi64(_mm512_cvtepu16_epi64(upper8), 48),
                                           _mm512_slli_epi64(_mm512_cvtepu16_epi64(middle8), 32));
      _mm512_storeu_si512(out + i + 8 * k, _mm512_or_si512(high, _mm512_cvtepu32_epi64(lower8)));
    }
  }
}

#pragma GCC diagnostic pop

#endif

}  // namespace

void stream_words(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                  std::uint32_t* out, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return words_avx512(keys, id, first_block, count, out);
  if (set == InstructionSet::kAvx2) return words_avx2(keys, id, first_block, count, out);
#endif
  static_cast<void>(set);
  words_portable(keys, id, first_block, 0, count, out);
}

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
