#include "weighted/race.hpp"

#include <algorithm>

#include "core/buffer.hpp"
#include "core/select_smallest.hpp"
#include "random/unit_interval.hpp"
#include "weighted/vector_draws.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

template <class Weight>
HEADRACE_INLINE void arrivals_of(const Weight* weights, std::size_t count, std::uint64_t* times) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto weight = static_cast<double>(weights[i]);
    const std::uint64_t time = ordered_bits(negative_log(unit_interval(times[i])) / weight);
    times[i] = weight > 0.0 ? time : ~std::uint64_t{0};
  }
}

HEADRACE_INLINE std::size_t keep_by_counting(const std::uint64_t* times, std::size_t count, std::size_t wanted,
                                             std::uint32_t* kept) {
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t earlier = 0;
    for (std::size_t k = 0; k < count; ++k) earlier += times[k] < times[i] ? 1 : 0;
    kept[num_kept] = static_cast<std::uint32_t>(i);
    num_kept += earlier < wanted ? 1 : 0;
  }
  return num_kept;
}

#if defined(__x86_64__)

template <class Weight>
HEADRACE_AVX2 void arrivals_avx2(const Weight* weights, std::size_t count, std::uint64_t* times) {
  arrivals_of(weights, count, times);
}

HEADRACE_AVX2 std::size_t keep_avx2(const std::uint64_t* times, std::size_t count, std::size_t wanted,
                                    std::uint32_t* kept) {
  return keep_by_counting(times, count, wanted, kept);
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

// negative_log of eight variates, step by step the same. The compiler leaves that loop scalar for short rows.
HEADRACE_AVX512 HEADRACE_INLINE __m512d negative_log8(__m512i variates) {
  const __m512d one = _mm512_set1_pd(1.0);
  const __m512i bits = _mm512_castpd_si512(unit_interval8(variates));
  const __m512i exponent = _mm512_or_si512(_mm512_srli_epi64(bits, 52), _mm512_set1_epi64(0x4330000000000000LL));
  const __m512i mantissa = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi64(0x000FFFFFFFFFFFFFLL)),
                                           _mm512_set1_epi64(0x3FE0000000000000LL));
  __m512d e = _mm512_sub_pd(_mm512_castsi512_pd(exponent), _mm512_set1_pd(0x1p52 + 1022.0));
  __m512d m = _mm512_castsi512_pd(mantissa);
  const __mmask8 below = _mm512_cmp_pd_mask(m, _mm512_set1_pd(0x1.6a09e667f3bcdp-1), _CMP_LT_OQ);
  m = _mm512_mask_add_pd(m, below, m, m);
  e = _mm512_mask_sub_pd(e, below, e, one);
  const __m512d s = _mm512_div_pd(_mm512_sub_pd(m, one), _mm512_add_pd(m, one));
  const __m512d z = _mm512_mul_pd(s, s);
  __m512d series = _mm512_set1_pd(1.0 / 23.0);
  for (int divisor = 21; divisor >= 3; divisor -= 2) {
    series = _mm512_add_pd(_mm512_mul_pd(series, z), _mm512_set1_pd(1.0 / divisor));
  }
  const __m512d twice = _mm512_add_pd(s, s);
  const __m512d log_m = _mm512_add_pd(twice, _mm512_mul_pd(twice, _mm512_mul_pd(z, series)));
  const __m512d small = _mm512_add_pd(log_m, _mm512_mul_pd(e, _mm512_set1_pd(1.90821492927058770002e-10)));
  const __m512d log = _mm512_add_pd(_mm512_mul_pd(e, _mm512_set1_pd(6.93147180369123816490e-01)), small);
  return _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(log), _mm512_set1_epi64(INT64_MIN)));
}

// arrivals of eight edges. A lane without an edge has weight 0.
HEADRACE_AVX512 HEADRACE_INLINE __m512i arrivals8(__m512d weights, __m512i variates) {
  const __m512d times = _mm512_div_pd(negative_log8(variates), weights);
  const __mmask8 arrive = _mm512_cmp_pd_mask(weights, _mm512_setzero_pd(), _CMP_GT_OQ);
  return _mm512_mask_mov_epi64(_mm512_set1_epi64(-1), arrive, _mm512_castpd_si512(times));
}

template <class Weight>
HEADRACE_AVX512 void arrivals_avx512(const Weight* weights, std::size_t count, std::uint64_t* times) {
  for (std::size_t i = 0; i < count; i += 8) {
    const auto lanes = static_cast<__mmask8>(count - i >= 8 ? 0xFFU : (1U << (count - i)) - 1U);
    const __m512i variates = _mm512_maskz_loadu_epi64(lanes, times + i);
    _mm512_mask_storeu_epi64(times + i, lanes, arrivals8(load8(weights + i, lanes), variates));
  }
}

// The lanes of edges that arrive, and before which fewer than `wanted` of the times are.
HEADRACE_AVX512 HEADRACE_INLINE __mmask8 earliest8(__m512i arrivals, const std::uint64_t* times, std::size_t count,
                                                   std::size_t wanted) {
  const __m512i one = _mm512_set1_epi64(1);
  __m512i earlier = _mm512_setzero_si512();
  for (std::size_t i = 0; i < count; ++i) {
    const __mmask8 before = _mm512_cmplt_epu64_mask(_mm512_set1_epi64(static_cast<long long>(times[i])), arrivals);
    earlier = _mm512_mask_add_epi64(earlier, before, earlier, one);
  }
  const __mmask8 arrive = _mm512_cmpneq_epu64_mask(arrivals, _mm512_set1_epi64(-1));
  return _mm512_mask_cmplt_epu64_mask(arrive, earlier, _mm512_set1_epi64(static_cast<long long>(wanted)));
}

template <class Weight>
HEADRACE_AVX512 std::size_t race_avx512(const Weight* weights, const std::uint64_t* variates, std::int64_t start,
                                        std::size_t degree, std::size_t wanted, std::int64_t* positions) {
  const unsigned lanes = (1U << degree) - 1U;
  const __m512d front_weights = load8(weights, static_cast<__mmask8>(lanes));
  const __m512d back_weights = load8(weights + 8, static_cast<__mmask8>(lanes >> 8));
  const __m512i front = arrivals8(front_weights, _mm512_loadu_si512(variates));
  const __m512i back = arrivals8(back_weights, _mm512_loadu_si512(variates + 8));
  std::uint64_t times[kMostRacers];
  _mm512_storeu_si512(times, front);
  _mm512_storeu_si512(times + 8, back);
  const __mmask8 front_picks = earliest8(front, times, degree, wanted);
  const __mmask8 back_picks = earliest8(back, times, degree, wanted);
  const auto num_front = static_cast<unsigned>(__builtin_popcount(front_picks));
  const std::size_t picked = num_front + static_cast<unsigned>(__builtin_popcount(back_picks));
  const __m512i places = _mm512_add_epi64(_mm512_set1_epi64(start), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  const __m512i back_places = _mm512_add_epi64(places, _mm512_set1_epi64(8));
  _mm512_storeu_si512(positions, _mm512_maskz_compress_epi64(front_picks, places));
  _mm512_storeu_si512(positions + num_front, _mm512_maskz_compress_epi64(back_picks, back_places));
  return picked <= wanted ? picked : kUndecided;
}

HEADRACE_AVX512 std::size_t keep_avx512(std::uint64_t* times, std::size_t count, std::size_t wanted,
                                        std::uint32_t* kept) {
  _mm512_storeu_si512(times + count, _mm512_set1_epi64(-1));  // never earlier than anything
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const __m512i time = _mm512_set1_epi64(static_cast<long long>(times[i]));
    std::size_t earlier = 0;
    for (std::size_t k = 0; k < count; k += 8) {
      const __mmask8 before = _mm512_cmplt_epu64_mask(_mm512_loadu_si512(times + k), time);
      earlier += static_cast<unsigned>(__builtin_popcount(before));
    }
    kept[num_kept] = static_cast<std::uint32_t>(i);
    num_kept += earlier < wanted ? 1 : 0;
  }
  return num_kept;
}

#pragma GCC diagnostic pop

#endif

// Counting takes time by the square of the count; beyond this a selection is faster.
constexpr std::size_t kCountAll = 128;

std::size_t keep_by_selection(const std::uint64_t* times, std::size_t count, std::size_t wanted, std::uint32_t* kept) {
  Buffer<std::uint64_t> sorted(count);
  std::copy(times, times + count, sorted.data());
  std::nth_element(sorted.data(), sorted.data() + (wanted - 1), sorted.data() + count);
  const std::uint64_t last = sorted[wanted - 1];
  std::size_t num_kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    kept[num_kept] = static_cast<std::uint32_t>(i);
    num_kept += times[i] <= last ? 1 : 0;
  }
  return num_kept;
}

}  // namespace

template <class Weight>
void arrivals(const Weight* weights, std::size_t count, std::uint64_t* times, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return arrivals_avx512(weights, count, times);
  if (set == InstructionSet::kAvx2) return arrivals_avx2(weights, count, times);
#endif
  static_cast<void>(set);
  arrivals_of(weights, count, times);
}

template <class Weight>
std::size_t race_at_once([[maybe_unused]] const Weight* weights, [[maybe_unused]] const std::uint64_t* variates,
                         [[maybe_unused]] std::int64_t start, [[maybe_unused]] std::size_t degree,
                         [[maybe_unused]] std::size_t wanted, [[maybe_unused]] std::int64_t* positions,
                         [[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return race_avx512(weights, variates, start, degree, wanted, positions);
#endif
  return kUndecided;
}

std::size_t keep_earliest(std::uint64_t* times, std::size_t count, std::size_t wanted, std::uint32_t* kept,
                          InstructionSet set) {
  if (wanted == 0) return 0;
  if (count > kCountAll) return keep_by_selection(times, count, std::min(wanted, count), kept);
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return keep_avx512(times, count, wanted, kept);
  if (set == InstructionSet::kAvx2) return keep_avx2(times, count, wanted, kept);
#endif
  static_cast<void>(set);
  return keep_by_counting(times, count, wanted, kept);
}

template std::size_t race_at_once<float>(const float*, const std::uint64_t*, std::int64_t, std::size_t, std::size_t,
                                         std::int64_t*, InstructionSet);
template std::size_t race_at_once<double>(const double*, const std::uint64_t*, std::int64_t, std::size_t, std::size_t,
                                          std::int64_t*, InstructionSet);
template void arrivals<float>(const float*, std::size_t, std::uint64_t*, InstructionSet);
template void arrivals<double>(const double*, std::size_t, std::uint64_t*, InstructionSet);

}  // namespace headrace
