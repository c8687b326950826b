#include "weighted/weighted_loops.hpp"

#include <algorithm>

#include "random/stream.hpp"
#include "random/unit_interval.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/vector_draws.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::size_t kLanes = 16;  // draws that look at the same sum at the same time

// Each draw counts the sums that do not exceed its target.
HEADRACE_INLINE void count_sums(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                std::size_t count, std::uint64_t* out) {
  const double total = sums[degree - 1];
  double targets[kLanes];
  std::uint64_t counts[kLanes];
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    targets[lane] = target_of(unit_interval(variates[std::min(lane, count - 1)]), total);
    counts[lane] = 0;
  }
  for (std::size_t i = 0; i < degree; ++i) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) counts[lane] += sums[i] <= targets[lane] ? 1 : 0;
  }
  std::copy(counts, counts + count, out);
}

HEADRACE_INLINE void find_edges_of(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                   std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    count_sums(sums, degree, variates + i, std::min(count - i, kLanes), out + i);
  }
}

template <class Weight>
HEADRACE_INLINE void draw_parts_of(const SummedRow<Weight>& row, double total, const std::uint64_t* variates,
                                   std::size_t count, DrawnParts& drawn) {
  for (std::size_t i = 0; i < count; ++i) {
    const double u = unit_interval(variates[i]);
    drawn.targets[i] = target_of(u, total);
    drawn.parts[i] = row.part(u, drawn.targets[i]);
    row.announce(drawn.parts[i]);
  }
}

template <class Weight>
HEADRACE_INLINE void find_in_parts_of(const SummedRow<Weight>& row, const DrawnParts& drawn, std::size_t count,
                                      std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = row.find(drawn.parts[i], drawn.targets[i]);
}

#if defined(__x86_64__)

HEADRACE_AVX2 void find_edges_avx2(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                   std::size_t count, std::uint64_t* out) {
  find_edges_of(sums, degree, variates, count, out);
}

template <class Weight>
HEADRACE_AVX2 void draw_parts_avx2(const SummedRow<Weight>& row, double total, const std::uint64_t* variates,
                                   std::size_t count, DrawnParts& drawn) {
  draw_parts_of(row, total, variates, count, drawn);
}

template <class Weight>
HEADRACE_AVX2 void find_in_parts_avx2(const SummedRow<Weight>& row, const DrawnParts& drawn, std::size_t count,
                                      std::uint64_t* out) {
  find_in_parts_of(row, drawn, count, out);
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HEADRACE_AVX512 void find_edges_avx512(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                       std::size_t count, std::uint64_t* out) {
  find_edges_of(sums, degree, variates, count, out);
}

// Up to so many sums all draws look at each.
constexpr std::size_t kMostSumsInStep = 24;

template <class Weight>
HEADRACE_AVX512 void draw_parts_avx512(const SummedRow<Weight>& row, double total, const std::uint64_t* variates,
                                       std::size_t count, DrawnParts& drawn) {
  if (row.num_sums() > kMostSumsInStep) return draw_parts_of(row, total, variates, count, drawn);
  static_assert(DrawnParts::kMost == 16, "two vectors");
  const unsigned lanes = (1U << count) - 1U;
  const __m512i front = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), variates);
  const __m512i back = _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes >> 8), variates + 8);
  const __m512d targets[2] = {targets8(front, total), targets8(back, total)};
  __m512i parts[2];
  count_sums16(row.sums(), row.num_sums(), targets, parts);
  for (std::size_t half = 0; half < 2; ++half) {
    _mm512_storeu_pd(drawn.targets + 8 * half, targets[half]);
    _mm512_storeu_si512(drawn.parts + 8 * half, parts[half]);
  }
  for (std::size_t i = 0; i < count; ++i) row.announce(drawn.parts[i]);
}

// Turn eight rows of a matrix into its columns.
HEADRACE_AVX512 HEADRACE_INLINE void transpose8(__m512d* rows) {
  __m512d pairs[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm512_unpacklo_pd(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_pd(rows[i], rows[i + 1]);
  }
  __m512d fours[8];
  for (int i = 0; i < 8; i += 4) {
    for (int k = 0; k < 2; ++k) {
      fours[i + k] = _mm512_shuffle_f64x2(pairs[i + k], pairs[i + k + 2], 0x88);
      fours[i + k + 2] = _mm512_shuffle_f64x2(pairs[i + k], pairs[i + k + 2], 0xDD);
    }
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0x88);
    rows[i + 4] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0xDD);
  }
}

// Eight draws side by side, which add up the weights of their parts in step: each in the order of its row.
template <class Weight>
HEADRACE_AVX512 void find_in_parts_avx512(const SummedRow<Weight>& row, const DrawnParts& drawn, std::size_t count,
                                          std::uint64_t* out) {
  static_assert(kEdgesPerSum == 16, "a part is two vectors of eight weights");
  const __m512i one = _mm512_set1_epi64(1);
  for (std::size_t first = 0; first < count; first += 8) {
    const auto draws = static_cast<__mmask8>(count - first >= 8 ? 0xFFU : (1U << (count - first)) - 1U);
    typename SummedRow<Weight>::Part parts[8];
    double before[8];
    std::uint64_t firsts[8];
    for (std::size_t i = 0; i < 8; ++i) {
      parts[i] = row.at(drawn.parts[std::min(first + i, count - 1)]);
      before[i] = parts[i].before;
      firsts[i] = parts[i].first;
    }
    const __m512d targets = _mm512_maskz_loadu_pd(draws, drawn.targets + first);
    __m512d sums = _mm512_loadu_pd(before);
    __m512i edges = _mm512_loadu_si512(firsts);
    for (std::size_t half = 0; half < kEdgesPerSum; half += 8) {
      __m512d weights[8];
      for (std::size_t i = 0; i < 8; ++i) {
        // Behind the part are zeros: to add them changes no sum, and the last sum of a part exceeds the target.
        const auto lanes = static_cast<__mmask8>(((1U << parts[i].length) - 1U) >> half);
        weights[i] = load8(row.weights() + parts[i].first + half, lanes);
      }
      transpose8(weights);
      for (std::size_t i = 0; i < 8; ++i) {
        sums = _mm512_add_pd(sums, weights[i]);
        edges = _mm512_mask_add_epi64(edges, _mm512_cmp_pd_mask(sums, targets, _CMP_LE_OQ), edges, one);
      }
    }
    edges = _mm512_min_epu64(edges, _mm512_set1_epi64(static_cast<long long>(row.degree() - 1)));  // see find
    _mm512_mask_storeu_epi64(out + first, draws, edges);
  }
}

#pragma GCC diagnostic pop

#endif

}  // namespace

void find_edges(const double* sums, std::size_t degree, const std::uint64_t* variates, std::size_t count,
                std::uint64_t* out, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return find_edges_avx512(sums, degree, variates, count, out);
  if (set == InstructionSet::kAvx2) return find_edges_avx2(sums, degree, variates, count, out);
#endif
  static_cast<void>(set);
  find_edges_of(sums, degree, variates, count, out);
}

template <class Weight>
void draw_parts(const SummedRow<Weight>& row, double total, const std::uint64_t* variates, std::size_t count,
                DrawnParts& drawn, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return draw_parts_avx512(row, total, variates, count, drawn);
  if (set == InstructionSet::kAvx2) return draw_parts_avx2(row, total, variates, count, drawn);
#endif
  static_cast<void>(set);
  draw_parts_of(row, total, variates, count, drawn);
}

template <class Weight>
void find_in_parts(const SummedRow<Weight>& row, const DrawnParts& drawn, std::size_t count, std::uint64_t* out,
                   InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return find_in_parts_avx512(row, drawn, count, out);
  if (set == InstructionSet::kAvx2) return find_in_parts_avx2(row, drawn, count, out);
#endif
  static_cast<void>(set);
  find_in_parts_of(row, drawn, count, out);
}

template void draw_parts<float>(const SummedRow<float>&, double, const std::uint64_t*, std::size_t, DrawnParts&,
                                InstructionSet);
template void find_in_parts<float>(const SummedRow<float>&, const DrawnParts&, std::size_t, std::uint64_t*,
                                   InstructionSet);
template void draw_parts<double>(const SummedRow<double>&, double, const std::uint64_t*, std::size_t, DrawnParts&,
                                 InstructionSet);
template void find_in_parts<double>(const SummedRow<double>&, const DrawnParts&, std::size_t, std::uint64_t*,
                                    InstructionSet);
}  // namespace headrace
