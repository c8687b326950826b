#include "sampling/labor_scan.hpp"

#include <algorithm>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"
#include "random/stream.hpp"
#include "random/vector_philox.hpp"
#include "sampling/picker.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// Asks at each step of `kStep` ids for as much of the ids ahead, and of the row itself behind the lines that were asked
// for when it was ahead.
template <std::size_t kStep, class Index>
HEADRACE_INLINE void prefetch(const Index* ids, std::size_t num_ids, std::size_t i, IdsAhead<Index> ahead) {
  constexpr std::size_t kPerLine = kCacheLineBytes / sizeof(Index);
  constexpr std::size_t kOwnAhead = kLinesAhead * kPerLine;
  for (std::size_t k = i; k < i + kStep; k += kPerLine) {
    if (k < ahead.count) prefetch_read(ahead.ids + k);
    if (k + kOwnAhead < num_ids) prefetch_read(ids + k + kOwnAhead);
  }
}

// The lines that the steps have not come to, and that of the last id: a row rarely begins where a cache line does, so
// the last line may hold none of those that were asked for.
template <class Index>
void prefetch_rest(std::size_t i, IdsAhead<Index> ahead) {
  for (; i < ahead.count; i += kCacheLineBytes / sizeof(Index)) prefetch_read(ahead.ids + i);
  if (ahead.count != 0) prefetch_read(ahead.ids + (ahead.count - 1));
}

template <class Index>
std::size_t scan_portable(const Index* ids, std::size_t num_ids, std::uint64_t key, std::uint32_t bound,
                          std::uint32_t* high, std::uint32_t* offsets) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < num_ids; ++i) {
    const std::uint32_t word = high_word(labor_variate(key, static_cast<std::uint64_t>(ids[i])));
    high[found] = word;
    offsets[found] = static_cast<std::uint32_t>(i);
    found += word <= bound ? 1 : 0;
  }
  return found;
}

std::size_t keep_portable(std::uint32_t* high, const std::uint32_t* offsets, std::size_t count, std::size_t wanted,
                          std::uint32_t* kept) {
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t smaller = 0;
    for (std::size_t k = 0; k < count; ++k) smaller += high[k] < high[i] ? 1 : 0;
    kept[num_kept] = offsets[i];
    num_kept += smaller < wanted ? 1 : 0;
  }
  return num_kept;
}

#ifdef HEADRACE_X86

// Philox4x32 of the counters (id low, id high, 0, 0) with each 32-bit word in the lower half of a 64-bit lane. The
// upper halves hold leftovers, which the 32 x 32 bit multiplication does not read. Returns the first words. Two vectors
// at a time hide the multiplier's latency.

HEADRACE_AVX2 HEADRACE_INLINE __m256i high_words_avx2(__m256i front, __m256i back, std::uint64_t key) {
  __m256i c0[2] = {front, back};
  __m256i c1[2] = {_mm256_srli_epi64(front, 32), _mm256_srli_epi64(back, 32)};
  __m256i c2[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  __m256i c3[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  std::uint32_t key0 = low_word(key);
  std::uint32_t key1 = high_word(key);
  for (int round = 0; round < kVariateRounds; ++round, key0 += 0x9E3779B9U, key1 += 0xBB67AE85U) {
    for (int v = 0; v < 2; ++v) {
      philox_round(c0[v], c1[v], c2[v], c3[v], _mm256_set1_epi64x(key0), _mm256_set1_epi64x(key1));
    }
  }
  const __m256 pairs =
      _mm256_shuffle_ps(_mm256_castsi256_ps(c0[0]), _mm256_castsi256_ps(c0[1]), _MM_SHUFFLE(2, 0, 2, 0));
  return _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), _MM_SHUFFLE(3, 1, 2, 0));
}

template <class Index>
HEADRACE_AVX2 std::size_t scan_avx2(const Index* ids, std::size_t num_ids, std::uint64_t key, std::uint32_t bound,
                                    std::uint32_t* high, std::uint32_t* offsets, IdsAhead<Index> ahead) {
  const __m256i bounds = _mm256_set1_epi32(static_cast<int>(bound));
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i + 8 <= num_ids; i += 8) {
    prefetch<8>(ids, num_ids, i, ahead);
    alignas(32) std::uint32_t words[8];
    const __m256i all = high_words_avx2(load4(ids + i), load4(ids + i + 4), key);
    _mm256_store_si256(reinterpret_cast<__m256i*>(words), all);
    const __m256i at_most = _mm256_cmpeq_epi32(_mm256_min_epu32(all, bounds), all);
    auto hits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(at_most)));
    for (; hits != 0; hits &= hits - 1) {
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(hits));
      high[found] = words[lane];
      offsets[found++] = static_cast<std::uint32_t>(i) + lane;
    }
  }
  prefetch_rest(i, ahead);
  const std::size_t tail = scan_portable(ids + i, num_ids - i, key, bound, high + found, offsets + found);
  for (std::size_t k = found; k < found + tail; ++k) offsets[k] += static_cast<std::uint32_t>(i);
  return found + tail;
}

HEADRACE_AVX2 std::size_t keep_avx2(std::uint32_t* high, const std::uint32_t* offsets, std::size_t count,
                                    std::size_t wanted, std::uint32_t* kept) {
  std::fill(high + count, high + count + 8, ~0U);  // never smaller than anything
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const __m256i value = _mm256_set1_epi32(static_cast<int>(high[i]));
    std::size_t at_least = 0;
    std::size_t k = 0;
    for (; k < count; k += 8) {
      const __m256i others = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high + k));
      const __m256i not_smaller = _mm256_cmpeq_epi32(_mm256_max_epu32(others, value), others);
      at_least += static_cast<unsigned>(
          __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(not_smaller)))));
    }
    kept[num_kept] = offsets[i];
    num_kept += k - at_least < wanted ? 1 : 0;
  }
  return num_kept;
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// The keys of a round.
HEADRACE_AVX512 HEADRACE_INLINE __m512i key0(std::uint64_t key, std::uint32_t round) {
  return _mm512_set1_epi64(low_word(key) + round * 0x9E3779B9U);
}
HEADRACE_AVX512 HEADRACE_INLINE __m512i key1(std::uint64_t key, std::uint32_t round) {
  return _mm512_set1_epi64(high_word(key) + round * 0xBB67AE85U);
}

// What a round makes of c2 and c0 is computed only where a later round reads it. kNarrow: the ids' upper halves are 0.
template <bool kNarrow>
HEADRACE_AVX512 HEADRACE_INLINE __m512i high_words_avx512(__m512i front, __m512i back, std::uint64_t key) {
  constexpr int kXor3 = 0x96;
  const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53LL);
  const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57LL);
  __m512i c0[2] = {front, back};
  __m512i c1[2];
  __m512i c2[2];
  __m512i c3[2];
  for (int v = 0; v < 2; ++v) {
    // Round 0, where c2 = c3 = 0.
    const __m512i upper = kNarrow ? _mm512_setzero_si512() : _mm512_srli_epi64(c0[v], 32);
    c3[v] = _mm512_mul_epu32(c0[v], multiplier0);
    c0[v] = _mm512_xor_si512(upper, key0(key, 0));
    c2[v] = _mm512_xor_si512(_mm512_srli_epi64(c3[v], 32), key1(key, 0));
    // Round 1, where c1 = 0; of narrow ids all lanes of c0 are alike.
    const __m512i product0 = _mm512_mul_epu32(c0[v], multiplier0);
    c1[v] = _mm512_mul_epu32(c2[v], multiplier1);
    c0[v] = _mm512_xor_si512(_mm512_srli_epi64(c1[v], 32), key0(key, 1));
    c2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3[v], key1(key, 1), kXor3);
    c3[v] = product0;
  }
  for (std::uint32_t round = 2; round < kVariateRounds - 1; ++round) {
    for (int v = 0; v < 2; ++v) {
      const __m512i product0 = _mm512_mul_epu32(c0[v], multiplier0);
      const __m512i product1 = _mm512_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1[v], key0(key, round), kXor3);
      c2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3[v], key1(key, round), kXor3);
      c1[v] = product1;
      c3[v] = product0;
    }
  }
  for (int v = 0; v < 2; ++v) {
    const __m512i product1 = _mm512_mul_epu32(c2[v], multiplier1);
    c0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1[v], key0(key, kVariateRounds - 1), kXor3);
  }
  // The even 32-bit lanes of both, in order.
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_epi32(c0[0], even, c0[1]);
}

// Sixteen ids as 64-bit lanes; those outside the mask are zero.
HEADRACE_AVX512 HEADRACE_INLINE void load16(const std::int32_t* ids, __mmask16 lanes, __m512i* front, __m512i* back) {
  const __m512i all = _mm512_maskz_loadu_epi32(lanes, ids);
  const __m512i zero = _mm512_setzero_si512();
  const __m512i low_half = _mm512_setr_epi32(0, 16, 1, 16, 2, 16, 3, 16, 4, 16, 5, 16, 6, 16, 7, 16);
  const __m512i high_half = _mm512_setr_epi32(8, 16, 9, 16, 10, 16, 11, 16, 12, 16, 13, 16, 14, 16, 15, 16);
  *front = _mm512_permutex2var_epi32(all, low_half, zero);
  *back = _mm512_permutex2var_epi32(all, high_half, zero);
}

HEADRACE_AVX512 HEADRACE_INLINE void load16(const std::int64_t* ids, __mmask16 lanes, __m512i* front, __m512i* back) {
  *front = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), ids);
  *back = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes >> 8), ids + 8);
}

template <class Index>
HEADRACE_AVX512 std::size_t scan_avx512(const Index* ids, std::size_t num_ids, std::uint64_t key, std::uint32_t bound,
                                        std::uint32_t* high, std::uint32_t* offsets, IdsAhead<Index> ahead) {
  const __m512i bounds = _mm512_set1_epi32(static_cast<int>(bound));
  __m512i lane_offsets = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  std::size_t found = 0;
  std::size_t i = 0;
  for (; i < num_ids; i += 16) {
    const std::size_t left = num_ids - i;
    const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
    prefetch<16>(ids, num_ids, i, ahead);
    __m512i front;
    __m512i back;
    load16(ids + i, lanes, &front, &back);
    const __m512i words = high_words_avx512<sizeof(Index) == 4>(front, back, key);
    const __mmask16 hits = _mm512_mask_cmple_epu32_mask(lanes, words, bounds);
    _mm512_storeu_si512(high + found, _mm512_maskz_compress_epi32(hits, words));
    _mm512_storeu_si512(offsets + found, _mm512_maskz_compress_epi32(hits, lane_offsets));
    found += static_cast<unsigned>(__builtin_popcount(hits));
    lane_offsets = _mm512_add_epi32(lane_offsets, _mm512_set1_epi32(16));
  }
  prefetch_rest(i, ahead);
  return found;
}

// Each lane counts the values below its own, for as many vectors as hold them.
template <std::size_t kVectors>
HEADRACE_AVX512 std::size_t keep_avx512(std::uint32_t* high, const std::uint32_t* offsets, std::size_t count,
                                        std::size_t wanted, std::uint32_t* kept) {
  __m512i values[kVectors];
  __m512i below[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    values[v] = _mm512_loadu_si512(high + 16 * v);
    below[v] = _mm512_setzero_si512();
  }
  const __m512i one = _mm512_set1_epi32(1);
  for (std::size_t i = 0; i < count; ++i) {
    const __m512i other = _mm512_set1_epi32(static_cast<int>(high[i]));
    for (std::size_t v = 0; v < kVectors; ++v) {
      below[v] = _mm512_mask_add_epi32(below[v], _mm512_cmplt_epu32_mask(other, values[v]), below[v], one);
    }
  }
  const __m512i limit = _mm512_set1_epi32(static_cast<int>(std::min(wanted, count)));
  std::size_t num_kept = 0;
  for (std::size_t v = 0; v < kVectors; ++v) {
    const std::size_t left = count - std::min(count, 16 * v);
    const auto lanes = static_cast<__mmask16>(left >= 16 ? 0xFFFFU : (1U << left) - 1U);
    const __mmask16 keeps = _mm512_mask_cmplt_epu32_mask(lanes, below[v], limit);
    _mm512_storeu_si512(kept + num_kept, _mm512_maskz_compress_epi32(keeps, _mm512_loadu_si512(offsets + 16 * v)));
    num_kept += static_cast<unsigned>(__builtin_popcount(keeps));
  }
  return num_kept;
}

#pragma GCC diagnostic pop

#endif

// Counting takes time by the square of the count; beyond this a selection is faster.
constexpr std::size_t kCountAll = 192;

std::size_t keep_by_selection(const std::uint32_t* high, const std::uint32_t* offsets, std::size_t count,
                              std::size_t wanted, std::uint32_t* kept) {
  Buffer<std::uint32_t> sorted(count);
  std::copy(high, high + count, sorted.data());
  std::nth_element(sorted.data(), sorted.data() + (wanted - 1), sorted.data() + count);
  const std::uint32_t largest = sorted[wanted - 1];
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    kept[num_kept] = offsets[i];
    num_kept += high[i] <= largest ? 1 : 0;
  }
  return num_kept;
}

}  // namespace

template <class Index>
std::size_t scan_variates(const Index* ids, std::size_t num_ids, std::uint64_t key, std::uint32_t bound,
                          std::uint32_t* high, std::uint32_t* offsets, IdsAhead<Index> ahead, InstructionSet set) {
#ifdef HEADRACE_X86
  if (set == InstructionSet::kAvx512) return scan_avx512(ids, num_ids, key, bound, high, offsets, ahead);
  if (set == InstructionSet::kAvx2) return scan_avx2(ids, num_ids, key, bound, high, offsets, ahead);
#endif
  static_cast<void>(set);
  prefetch_rest(0, ahead);
  return scan_portable(ids, num_ids, key, bound, high, offsets);
}

std::size_t keep_smallest(std::uint32_t* high, const std::uint32_t* offsets, std::size_t count, std::size_t wanted,
                          std::uint32_t* kept, InstructionSet set) {
  if (wanted == 0) return 0;
  if (count > kCountAll && wanted <= count) return keep_by_selection(high, offsets, count, wanted, kept);
#ifdef HEADRACE_X86
  if (set == InstructionSet::kAvx512 && count <= 16) return keep_avx512<1>(high, offsets, count, wanted, kept);
  if (set == InstructionSet::kAvx512 && count <= 32) return keep_avx512<2>(high, offsets, count, wanted, kept);
  if (set != InstructionSet::kPortable) return keep_avx2(high, offsets, count, wanted, kept);
#endif
  static_cast<void>(set);
  return keep_portable(high, offsets, count, wanted, kept);
}

template std::size_t scan_variates<std::int32_t>(const std::int32_t*, std::size_t, std::uint64_t, std::uint32_t,
                                                 std::uint32_t*, std::uint32_t*, IdsAhead<std::int32_t>,
                                                 InstructionSet);
template std::size_t scan_variates<std::int64_t>(const std::int64_t*, std::size_t, std::uint64_t, std::uint32_t,
                                                 std::uint32_t*, std::uint32_t*, IdsAhead<std::int64_t>,
                                                 InstructionSet);

}  // namespace headrace
