#include "random/stream_words.hpp"

#include <algorithm>

#include "random/vector_philox.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

void words_portable(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                    std::uint32_t* out) {
  for (std::size_t i = 0; i < count; i += 4) {
    const PhiloxCounter words = stream_block(keys.key, id, first_block + static_cast<std::uint32_t>(i / 4));
    std::copy(words.begin(), words.end(), out + i);
  }
}

#ifdef HEADRACE_X86

// Philox4x32-10 of the counters (id low, id high, block, 0) for one block in each 64-bit lane, whose upper half
// holds leftovers that the 32 x 32 bit multiplication does not read. Blocks are numbered modulo 2^32.
HEADRACE_AVX2 HEADRACE_INLINE void words16_avx2(const StreamKeys& keys, std::uint64_t id, __m256i blocks,
                                                std::uint32_t* out) {
  __m256i c0 = _mm256_set1_epi64x(low_word(id));
  __m256i c1 = _mm256_set1_epi64x(high_word(id));
  __m256i c2 = blocks;
  __m256i c3 = _mm256_setzero_si256();
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
    words16_avx2(keys, id, _mm256_add_epi64(first, _mm256_setr_epi64x(0, 1, 2, 3)), out + i);
  }
}

#endif

}  // namespace

void stream_words(const StreamKeys& keys, std::uint64_t id, std::uint32_t first_block, std::size_t count,
                  std::uint32_t* out, InstructionSet set) {
#ifdef HEADRACE_X86
  if (set != InstructionSet::kPortable) return words_avx2(keys, id, first_block, count, out);
#endif
  static_cast<void>(set);
  words_portable(keys, id, first_block, count, out);
}

void stream_variates(const StreamKeys& keys, std::uint64_t id, std::uint64_t first, std::size_t count,
                     std::uint64_t* out) {
  constexpr std::size_t kAtOnce = 16;
  std::uint32_t words[2 * kAtOnce + kWordsSlack];
  for (std::size_t i = 0; i < count; i += kAtOnce) {
    const std::size_t end = std::min(count, i + kAtOnce);
    stream_words(keys, id, static_cast<std::uint32_t>((first + i) / 2), 2 * (end - i), words);
    for (std::size_t k = i; k < end; ++k) {
      out[k] = static_cast<std::uint64_t>(words[2 * (k - i)]) << 32 | words[2 * (k - i) + 1];
    }
  }
}

}  // namespace headrace
