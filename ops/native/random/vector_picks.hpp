// Picks of a row in vectors of AVX-512, up to sixteen, as offsets of 32 bits.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"

namespace headrace {

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// The first `count` <= 16 lanes.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 first_lanes(std::size_t count) {
  return static_cast<__mmask16>((1U << count) - 1U);
}

// The lanes that hold what an earlier lane holds.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 repeated_lanes(__m512i values) {
  const __m512i earlier = _mm512_conflict_epi32(values);
  return _mm512_test_epi32_mask(earlier, earlier);
}

HEADRACE_AVX512 HEADRACE_INLINE __m512i lane_numbers() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Eight lanes, each in 64 bits.
HEADRACE_AVX512 HEADRACE_INLINE __m512i front_half(__m512i lanes) {
  return _mm512_cvtepu32_epi64(_mm512_castsi512_si256(lanes));
}

HEADRACE_AVX512 HEADRACE_INLINE __m512i back_half(__m512i lanes) {
  return _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(lanes, 1));
}

// Write the positions of the offsets in `lanes` of a row that begins at `start`.
HEADRACE_AVX512 HEADRACE_INLINE void store_positions(std::int64_t start, __m512i offsets, __mmask16 lanes,
                                                     std::int64_t* positions) {
  const __m512i first = _mm512_set1_epi64(start);
  const __m512i front = _mm512_add_epi64(front_half(offsets), first);
  const __m512i back = _mm512_add_epi64(back_half(offsets), first);
  _mm512_mask_storeu_epi64(positions, static_cast<__mmask8>(lanes), front);
  _mm512_mask_storeu_epi64(positions + 8, static_cast<__mmask8>(lanes >> 8), back);
}

#pragma GCC diagnostic pop

}  // namespace headrace

#endif
