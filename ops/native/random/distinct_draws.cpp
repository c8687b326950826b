#include "random/distinct_draws.hpp"

#include "core/instruction_set.hpp"
#include "random/vector_picks.hpp"
#include "random/vector_words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {

bool draws_in_vectors() { return best_instruction_set() == InstructionSet::kAvx512; }

#if defined(__x86_64__)

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace {

constexpr __mmask16 kAllLanes = 0xFFFF;

// The lanes whose draw is picked already, in the order of the lanes, where lane i picks `last_of_first` + i in
// place of such a draw: the last edge that it could have drawn. So a draw is picked already if an earlier lane drew it
// (were that lane replaced, its draw was picked even before), or if it is the last edge of an earlier lane that is
// replaced. The latter takes a shift, where to look for repeated lanes again takes twenty cycles on Intel processors.
HEADRACE_AVX512 HEADRACE_INLINE __mmask16 replaced_lanes(__m512i draws, __mmask16 lanes, std::uint32_t last_of_first) {
  const __m512i one = _mm512_set1_epi32(1);
  // The lane whose last edge a draw is; of other draws a negative number, by which a shift leaves nothing.
  const __m512i lanes_of_last = _mm512_sub_epi32(draws, _mm512_set1_epi32(static_cast<int>(last_of_first)));
  auto replaced = static_cast<__mmask16>(lanes & repeated_lanes(draws));
  for (;;) {
    const __m512i replaced_there = _mm512_srlv_epi32(_mm512_set1_epi32(replaced), lanes_of_last);
    const auto all = static_cast<__mmask16>(replaced | _mm512_mask_test_epi32_mask(lanes, replaced_there, one));
    if (all == replaced) return replaced;
    replaced = all;
  }
}

}  // namespace

HEADRACE_AVX512 bool draw_distinct(const StreamKeys& keys, std::uint64_t id, std::int64_t start, std::uint32_t degree,
                                   std::uint32_t wanted, std::int64_t* positions) {
  const __mmask16 lanes = first_lanes(wanted);
  const __m512i words = words16_from_block(keys, id, 0);
  const __m512i last = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(degree - wanted)), lane_numbers());
  const __m512i range = _mm512_add_epi32(last, _mm512_set1_epi32(1));
  // Lemire's method: the draw is the upper half of word * range, unless the lower half says to repeat it.
  const __mmask16 upper = 0xAAAA;
  const __m512i even = _mm512_mul_epu32(words, range);
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(words, 32), _mm512_srli_epi64(range, 32));
  const __m512i low = _mm512_mask_blend_epi32(upper, even, _mm512_slli_epi64(odd, 32));
  if (_mm512_mask_cmplt_epu32_mask(lanes, low, range) != 0) return false;
  const __m512i draws = _mm512_mask_blend_epi32(upper, _mm512_srli_epi64(even, 32), odd);
  const __mmask16 replaced = replaced_lanes(draws, lanes, degree - wanted);
  const __m512i offsets = _mm512_mask_mov_epi32(draws, replaced, last);
  store_positions(start, offsets, kAllLanes, positions);
  return true;
}

#pragma GCC diagnostic pop

#else

bool draw_distinct(const StreamKeys&, std::uint64_t, std::int64_t, std::uint32_t, std::uint32_t, std::int64_t*) {
  return false;
}

#endif

}  // namespace headrace
