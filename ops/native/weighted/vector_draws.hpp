// Weights and draws by them in vectors of AVX-512: what unit_interval.hpp and running_sums.hpp do for one.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstddef>

#include "core/instruction_set.hpp"
#include "core/select_smallest.hpp"

namespace headrace {

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// unit_interval of each lane.
HEADRACE_AVX512 HEADRACE_INLINE __m512d unit_interval8(__m512i variates) {
  const __m512i bits = _mm512_or_si512(_mm512_srli_epi64(variates, 12), _mm512_set1_epi64(0x3FF0000000000000LL));
  return _mm512_add_pd(_mm512_sub_pd(_mm512_castsi512_pd(bits), _mm512_set1_pd(1.0)), _mm512_set1_pd(0x1p-53));
}

// target_of of each lane.
HEADRACE_AVX512 HEADRACE_INLINE __m512d targets8(__m512i variates, double total) {
  const __m512d largest = _mm512_set1_pd(from_ordered_bits(ordered_bits(total) - 1));
  return _mm512_min_pd(_mm512_mul_pd(unit_interval8(variates), _mm512_set1_pd(total)), largest);
}

// How many of the ascending sums do not exceed each target, for sixteen targets in step.
HEADRACE_AVX512 HEADRACE_INLINE void count_sums16(const double* sums, std::size_t num_sums, const __m512d* targets,
                                                  __m512i* counts) {
  const __m512i one = _mm512_set1_epi64(1);
  __m512i front = _mm512_setzero_si512();
  __m512i back = _mm512_setzero_si512();
  for (std::size_t i = 0; i < num_sums; ++i) {
    const __m512d sum = _mm512_set1_pd(sums[i]);
    front = _mm512_mask_add_epi64(front, _mm512_cmp_pd_mask(sum, targets[0], _CMP_LE_OQ), front, one);
    back = _mm512_mask_add_epi64(back, _mm512_cmp_pd_mask(sum, targets[1], _CMP_LE_OQ), back, one);
  }
  counts[0] = front;
  counts[1] = back;
}

// Up to eight weights, as doubles; 0 in the other lanes.
HEADRACE_AVX512 HEADRACE_INLINE __m512d load8(const float* weights, __mmask8 lanes) {
  return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, weights));
}

HEADRACE_AVX512 HEADRACE_INLINE __m512d load8(const double* weights, __mmask8 lanes) {
  return _mm512_maskz_loadu_pd(lanes, weights);
}

#pragma GCC diagnostic pop

}  // namespace headrace

#endif
