#include "weighted_loops.hpp"

#include <algorithm>

#include "buffer.hpp"
#include "running_sums.hpp"
#include "select_smallest.hpp"
#include "stream.hpp"
#include "unit_interval.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

HEADRACE_INLINE void find_edges_of(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                   std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = find_edge(sums, degree, unit_interval(variates[i]));
}

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

HEADRACE_AVX2 void find_edges_avx2(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                   std::size_t count, std::uint64_t* out) {
  find_edges_of(sums, degree, variates, count, out);
}

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

HEADRACE_AVX512 void find_edges_avx512(const double* sums, std::size_t degree, const std::uint64_t* variates,
                                       std::size_t count, std::uint64_t* out) {
  find_edges_of(sums, degree, variates, count, out);
}

template <class Weight>
HEADRACE_AVX512 void arrivals_avx512(const Weight* weights, std::size_t count, std::uint64_t* times) {
  arrivals_of(weights, count, times);
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
void arrivals(const Weight* weights, std::size_t count, std::uint64_t* times, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return arrivals_avx512(weights, count, times);
  if (set == InstructionSet::kAvx2) return arrivals_avx2(weights, count, times);
#endif
  static_cast<void>(set);
  arrivals_of(weights, count, times);
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

template void arrivals<float>(const float*, std::size_t, std::uint64_t*, InstructionSet);
template void arrivals<double>(const double*, std::size_t, std::uint64_t*, InstructionSet);

}  // namespace headrace
