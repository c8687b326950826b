#include "weighted/rows_of_a_kind.hpp"

#include <algorithm>
#include <limits>

#include "core/instruction_set.hpp"
#include "random/distinct_draws.hpp"
#include "random/vector_picks.hpp"
#include "random/vector_words.hpp"
#include "weighted/race.hpp"
#include "weighted/running_shares.hpp"
#include "weighted/vector_shares.hpp"
#include "weighted/weighted_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {

#if defined(__x86_64__)

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {

// Call pick(row, begin of its picks) for each of the rows. It returns false for a row that is left.
template <class Pick>
HEADRACE_AVX512 HEADRACE_INLINE void for_each(const Stretch& stretch, const RowNumbers& rows, const Pick& pick,
                                              RowNumbers& left) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t number = rows.numbers[i];
    left.add(number, !pick(stretch.rows[number], stretch.positions + stretch.begins[number]));
  }
}

// The upper halves of the first sixteen variates of an id: half of the blocks that all of their bits take.
HEADRACE_AVX512 HEADRACE_INLINE __m512i upper_halves(const StreamKeys& keys, std::uint64_t id) {
  const __m512i words = words16_of_blocks(keys, id, _mm256_setr_epi64x(0, 1, 0, 1), _mm256_setr_epi64x(0, 0, 1, 1));
  const __m512i upper = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(words));
  return _mm512_or_si512(_mm512_slli_epi32(upper, 16), _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(words, 1)));
}

// -ln(u) by the series of negative_log (unit_interval.hpp), of which fewer terms do: within 2^-19 if u is at least
// kLeastVariate.
HEADRACE_AVX512 HEADRACE_INLINE __m512 negative_log16(__m512 u) {
  const __m512i bits = _mm512_castps_si512(u);
  const __m512i root_of_half = _mm512_set1_epi32(0x3F3504F3);
  const __m512i exponent = _mm512_srai_epi32(_mm512_sub_epi32(bits, root_of_half), 23);
  const __m512 m = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(exponent, 23)));
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 s = _mm512_div_ps(_mm512_sub_ps(m, one), _mm512_add_ps(m, one));
  const __m512 z = _mm512_mul_ps(s, s);
  __m512 series = _mm512_fmadd_ps(z, _mm512_set1_ps(1.0F / 7.0F), _mm512_set1_ps(1.0F / 5.0F));
  series = _mm512_fmadd_ps(z, series, _mm512_set1_ps(1.0F / 3.0F));
  series = _mm512_fmadd_ps(z, series, one);
  const __m512 log_m = _mm512_mul_ps(_mm512_add_ps(s, s), series);
  return _mm512_fnmsub_ps(_mm512_cvtepi32_ps(exponent), _mm512_set1_ps(0.693147181F), log_m);
}

HEADRACE_AVX512 HEADRACE_INLINE __m512 load16(const float* weights, __mmask16 lanes) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(1.0F), lanes, weights);
}

HEADRACE_AVX512 HEADRACE_INLINE __m512 load16(const double* weights, __mmask16 lanes) {
  const __m512d one = _mm512_set1_pd(1.0);
  const __m256 front = _mm512_cvtpd_ps(_mm512_mask_loadu_pd(one, static_cast<__mmask8>(lanes), weights));
  const __m256 back = _mm512_cvtpd_ps(_mm512_mask_loadu_pd(one, static_cast<__mmask8>(lanes >> 8), weights + 8));
  return _mm512_castsi512_ps(
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_castps_si256(front)), _mm256_castps_si256(back), 1));
}

// What is not between these is left, as single precision may not hold what comes of it, or not closely enough.
constexpr float kLeastVariate = 0x1p-12F;
constexpr float kLeastWeight = 0x1p-100F;
constexpr float kMostWeight = 0x1p100F;
// More than all roundings together take or add to -ln(u), those of the weight and of the quotient among them: its
// value is below 9, so each of these is less than 2^-20.
constexpr float kMargin = 0x1p-16F;

// The edges of a row that win its race, as lanes: those that arrive, at the latest, before all but `wanted` of the
// edges can. Returns none if that does not tell.
template <class Weight>
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 winners(const StreamKeys& keys, std::uint64_t id, const Weight* weights,
                                                  std::size_t degree, std::size_t wanted) {
  const __mmask16 lanes = first_lanes(degree);
  const __m512 weight = load16(weights, lanes);
  const __m512 middle = _mm512_set1_ps(0x1p-33F);  // of what the lower halves of variates may add
  const __m512 u = _mm512_fmadd_ps(_mm512_cvtepu32_ps(upper_halves(keys, id)), _mm512_set1_ps(0x1p-32F), middle);
  const __m512 log = negative_log16(u);
  const __m512 scale = _mm512_div_ps(_mm512_set1_ps(1.0F), weight);
  const __m512 margin = _mm512_set1_ps(kMargin);
  const __m512 latest = _mm512_mul_ps(_mm512_add_ps(log, margin), scale);
  const __m512 infinity = _mm512_set1_ps(std::numeric_limits<float>::infinity());
  alignas(64) float earliest[kMostRacers];
  _mm512_store_ps(earliest, _mm512_mask_mul_ps(infinity, lanes, _mm512_sub_ps(log, margin), scale));
  const __m512i one = _mm512_set1_epi32(1);
  __m512i earlier = _mm512_setzero_si512();  // edges that may arrive before, and the edge itself
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kMostRacers; ++i) {
    const __mmask16 before = _mm512_cmp_ps_mask(_mm512_set1_ps(earliest[i]), latest, _CMP_LT_OQ);
    earlier = _mm512_mask_add_epi32(earlier, before, earlier, one);
  }
  const __mmask16 surely_first =
      _mm512_mask_cmple_epu32_mask(lanes, earlier, _mm512_set1_epi32(static_cast<int>(wanted)));
  const __mmask16 in_range = _mm512_cmp_ps_mask(u, _mm512_set1_ps(kLeastVariate), _CMP_GT_OQ) &
                             _mm512_cmp_ps_mask(weight, _mm512_set1_ps(kLeastWeight), _CMP_GT_OQ) &
                             _mm512_cmp_ps_mask(weight, _mm512_set1_ps(kMostWeight), _CMP_LT_OQ);
  const bool tells = (lanes & ~in_range) == 0 && static_cast<std::size_t>(__builtin_popcount(surely_first)) == wanted;
  return tells ? surely_first : __mmask16{0};
}

template <class Weight>
HEADRACE_AVX512 void race_rows_of(const Stretch& stretch, const RowNumbers& rows, const StreamKeys& keys,
                                  const Weight* weights, RowNumbers& left) {
  const std::size_t wanted = stretch.wanted;
  const auto pick = [&](const Destination& destination, std::int64_t* positions) HEADRACE_AVX512 {
    const Row row = destination.row;
    const __mmask16 picks = winners(keys, static_cast<std::uint64_t>(destination.vertex), weights + row.start,
                                    static_cast<std::size_t>(row.degree), wanted);
    store_positions(row.start, _mm512_maskz_compress_epi32(picks, lane_numbers()), first_lanes(wanted), positions);
    return picks != 0;
  };
  for_each(stretch, rows, pick, left);
}

// Draws of a row without those that are like an earlier one, in order.
struct DistinctDraws {
  __m512i edges;
  std::size_t count;
};

HEADRACE_AVX512 HEADRACE_INLINE DistinctDraws distinct(__m512i draws) {
  const auto fresh = static_cast<__mmask16>(~repeated_lanes(draws));
  return {_mm512_maskz_compress_epi32(fresh, draws), static_cast<unsigned>(__builtin_popcount(fresh))};
}

// And behind them those in `lanes` of sixteen more.
HEADRACE_AVX512 HEADRACE_INLINE DistinctDraws with_more(DistinctDraws first, __m512i draws, __mmask16 lanes) {
  const auto fresh = static_cast<__mmask16>(lanes & ~repeated_lanes(draws));
  const __m512i places = _mm512_sub_epi32(lane_numbers(), _mm512_set1_epi32(static_cast<int>(first.count)));
  const __m512i behind = _mm512_permutexvar_epi32(places, _mm512_maskz_compress_epi32(fresh, draws));
  return {_mm512_mask_mov_epi32(behind, first_lanes(first.count), first.edges),
          first.count + static_cast<unsigned>(__builtin_popcount(fresh))};
}

// The lanes of `draws` whose edge, below 32, is among sixteen earlier ones.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 known32(__m512i earlier, __m512i draws) {
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i drawn = _mm512_set1_epi32(_mm512_reduce_or_epi32(_mm512_sllv_epi32(one, earlier)));
  return _mm512_test_epi32_mask(_mm512_srlv_epi32(drawn, draws), one);
}

// The same of edges below 64.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 known64(__m512i earlier, __m512i draws) {
  const __m512i one = _mm512_set1_epi64(1);
  const __m512i bits =
      _mm512_or_si512(_mm512_sllv_epi64(one, front_half(earlier)), _mm512_sllv_epi64(one, back_half(earlier)));
  const __m512i drawn = _mm512_set1_epi64(_mm512_reduce_or_epi64(bits));
  const unsigned front = _mm512_test_epi64_mask(_mm512_srlv_epi64(drawn, front_half(draws)), one);
  const unsigned back = _mm512_test_epi64_mask(_mm512_srlv_epi64(drawn, back_half(draws)), one);
  return static_cast<__mmask16>(front | back << 8);
}

// Of rows of up to 32 edges sixteen draws often do not suffice: to see to all 32 takes less time than to guess wrong.
template <bool kInTwo>
HEADRACE_AVX512 HEADRACE_INLINE bool draw_short_row(const StreamKeys& keys, std::uint64_t id, Row row,
                                                    const std::uint16_t* shares, std::size_t wanted,
                                                    std::int64_t* positions) {
  const auto degree = static_cast<std::size_t>(row.degree);
  const __m512i upper = words16_from_block(keys, id, 0);
  const FoundEdges found = kInTwo ? bisect64(shares, degree, upper) : bisect32(shares, degree, upper);
  const __m512i front = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(found.edges));
  DistinctDraws draws = distinct(front);
  __mmask32 untold = found.untold & 0xFFFFU;
  if (!kInTwo || draws.count < wanted) {
    const __m512i back = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(found.edges, 1));
    // Where fewer than three edges are wanted there are not so many draws.
    const __mmask16 made = first_lanes(std::min<std::size_t>(draws_before_race(wanted), kMostSharedDraws) - 16);
    const __mmask16 known = kInTwo ? known64(front, back) : known32(front, back);
    draws = with_more(draws, back, static_cast<__mmask16>(made & ~known));
    untold = found.untold;
  }
  store_positions(row.start, draws.edges, first_lanes(wanted), positions);
  return untold == 0 && draws.count >= wanted && shares[degree - 1] == kLastShare;
}

// Of longer rows two draws more than are wanted, at most sixteen, nearly always suffice.
HEADRACE_AVX512 HEADRACE_INLINE bool draw_long_row(const StreamKeys& keys, std::uint64_t id, Row row,
                                                   const std::uint16_t* shares, std::size_t wanted,
                                                   std::int64_t* positions) {
  const std::size_t count = std::min(wanted + 2, kMostDistinctDraws);
  std::uint16_t offsets[kMostSharedDraws];
  const std::size_t num_told = find_by_shares(keys, id, 0, shares, static_cast<std::size_t>(row.degree), count, offsets,
                                              InstructionSet::kAvx512);
  const __m512i edges = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(offsets)));
  const auto fresh = static_cast<__mmask16>(first_lanes(num_told) & ~repeated_lanes(edges));
  store_positions(row.start, _mm512_maskz_compress_epi32(fresh, edges), first_lanes(wanted), positions);
  return static_cast<std::size_t>(__builtin_popcount(fresh)) >= wanted;
}

}  // namespace

HEADRACE_AVX512 void take_rows(const Stretch& stretch, const RowNumbers& rows) {
  for (std::size_t i = 0; i < rows.count; ++i) {
    const std::size_t number = rows.numbers[i];
    const Row row = stretch.rows[number].row;
    store_positions(row.start, lane_numbers(), first_lanes(static_cast<std::size_t>(row.degree)),
                    stretch.positions + stretch.begins[number]);
  }
}

void race_rows(const Stretch& stretch, const RowNumbers& rows, const StreamKeys& keys, EdgeWeights weights,
               RowNumbers& left) {
  if (weights.narrow != nullptr) return race_rows_of(stretch, rows, keys, weights.narrow, left);
  race_rows_of(stretch, rows, keys, weights.wide, left);
}

HEADRACE_AVX512 void draw_rows(const Stretch& stretch, const RowNumbers& rows, const StreamKeys& keys,
                               const std::uint16_t* shares, SharesIn vectors, RowNumbers& left) {
  const auto draw_with = [&](const auto& draw) HEADRACE_AVX512 {
    const auto pick = [&](const Destination& destination, std::int64_t* positions) HEADRACE_AVX512 {
      const Row row = destination.row;
      return draw(keys, static_cast<std::uint64_t>(destination.vertex), row, shares + row.start, stretch.wanted,
                  positions);
    };
    for_each(stretch, rows, pick, left);
  };
  switch (vectors) {
    case SharesIn::kVector:
      return draw_with([](const auto&... row) HEADRACE_AVX512 { return draw_short_row<false>(row...); });
    case SharesIn::kTwo:
      return draw_with([](const auto&... row) HEADRACE_AVX512 { return draw_short_row<true>(row...); });
    case SharesIn::kMany:
      return draw_with([](const auto&... row) HEADRACE_AVX512 { return draw_long_row(row...); });
  }
}

#pragma GCC diagnostic pop

#else

void take_rows(const Stretch&, const RowNumbers&) {}
void race_rows(const Stretch&, const RowNumbers&, const StreamKeys&, EdgeWeights, RowNumbers&) {}
void draw_rows(const Stretch&, const RowNumbers&, const StreamKeys&, const std::uint16_t*, SharesIn, RowNumbers&) {}

#endif

}  // namespace headrace
