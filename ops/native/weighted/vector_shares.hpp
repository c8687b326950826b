// Searches of running shares (running_shares.hpp) in vectors of AVX-512: 32 draws in step, in rows that stay in one
// register or two.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "core/instruction_set.hpp"
#include "weighted/running_shares.hpp"

namespace headrace {

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// The edges that 32 draws fall on, as offsets of 16 bits, and a bit for every draw of which only the sums tell.
struct FoundEdges {
  __m512i edges;
  __mmask32 untold;
};

HEADRACE_AVX512 HEADRACE_INLINE __m512i all_lanes16(std::size_t value) {
  return _mm512_set1_epi16(static_cast<short>(value));
}

// In a row of 0 < degree <= 32 edges. `upper` are the upper sixteen bits of variates.
HEADRACE_AVX512 HEADRACE_INLINE FoundEdges bisect32(const std::uint16_t* shares, std::size_t degree, __m512i upper) {
  const __m512i none = _mm512_set1_epi16(-1);  // before the first edge; and shares that nothing passes
  const __m512i row = _mm512_mask_loadu_epi16(none, ~std::uint32_t{0} >> (32 - degree), shares);
  __m512i last_passed = none;
#pragma GCC unroll 5
  for (std::size_t step = kSharesInVector / 2; step > 0; step /= 2) {
    const __m512i edge = _mm512_add_epi16(last_passed, all_lanes16(step));
    const __mmask32 passed = _mm512_cmplt_epu16_mask(_mm512_permutexvar_epi16(edge, row), upper);
    last_passed = _mm512_mask_mov_epi16(last_passed, passed, edge);
  }
  // Of 32 edges the last one is not asked: nothing passes it.
  const __m512i edges = _mm512_add_epi16(last_passed, all_lanes16(1));
  return {edges, _mm512_cmpeq_epu16_mask(_mm512_permutexvar_epi16(edges, row), upper)};
}

// In a row of 0 < degree <= 64 edges.
HEADRACE_AVX512 HEADRACE_INLINE FoundEdges bisect64(const std::uint16_t* shares, std::size_t degree, __m512i upper) {
  const std::uint64_t lanes = ~std::uint64_t{0} >> (64 - degree);
  const __m512i none = _mm512_set1_epi16(-1);
  const __m512i front = _mm512_mask_loadu_epi16(none, static_cast<__mmask32>(lanes), shares);
  const __m512i back =
      _mm512_mask_loadu_epi16(none, static_cast<__mmask32>(lanes >> kSharesInVector), shares + kSharesInVector);
  const __m512i middle = all_lanes16(kSharesInVector - 1);
  __m512i last_passed =
      _mm512_mask_mov_epi16(none, _mm512_cmplt_epu16_mask(_mm512_permutexvar_epi16(middle, front), upper), middle);
#pragma GCC unroll 5
  for (std::size_t step = kSharesInVector / 2; step > 0; step /= 2) {
    const __m512i edge = _mm512_add_epi16(last_passed, all_lanes16(step));
    const __mmask32 passed = _mm512_cmplt_epu16_mask(_mm512_permutex2var_epi16(front, edge, back), upper);
    last_passed = _mm512_mask_mov_epi16(last_passed, passed, edge);
  }
  const __m512i edges = _mm512_add_epi16(last_passed, all_lanes16(1));
  return {edges, _mm512_cmpeq_epu16_mask(_mm512_permutex2var_epi16(front, edges, back), upper)};
}

#pragma GCC diagnostic pop

}  // namespace headrace

#endif
