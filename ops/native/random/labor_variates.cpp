#include "random/labor_variates.hpp"

#include <algorithm>

#include "core/instruction_set.hpp"
#include "random/stream.hpp"
#include "random/vector_philox.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// Edges that are no repeats: the number of each is 0.
struct NoNumbers {
  std::uint32_t operator[](std::size_t) const { return 0; }
  NoNumbers operator+(std::size_t) const { return {}; }
};

template <class Index, class Numbers>
void one_by_one(std::uint64_t key, const Index* nodes, Numbers numbers, std::size_t count, std::uint64_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = labor_variate(key, static_cast<std::uint64_t>(nodes[i]), numbers[i]);
  }
}

#ifdef HEADRACE_X86

using headrace::load4;

HEADRACE_AVX2 inline __m256i load4(const std::uint32_t* numbers) {
  return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
}

HEADRACE_AVX2 inline __m256i load4(NoNumbers) { return _mm256_setzero_si256(); }

// Two vectors hide the multiplier's latency.
constexpr std::size_t kVectors = kVariatesAtOnce / 4;

// Philox4x32 with each 32-bit word in the lower half of a 64-bit lane. The upper halves hold rubbish, which neither
// the 32 x 32 -> 64 bit multiplication nor the final shift and mask look at.
template <class Index, class Numbers>
HEADRACE_AVX2 HEADRACE_INLINE void eight(std::uint64_t key, const Index* nodes, Numbers numbers, std::uint64_t* out) {
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    c0[v] = load4(nodes + 4 * v);
    c1[v] = _mm256_srli_epi64(c0[v], 32);
    c2[v] = load4(numbers + 4 * v);
    c3[v] = _mm256_setzero_si256();
  }
  std::uint32_t k0 = low_word(key);
  std::uint32_t k1 = high_word(key);
  for (int round = 0; round < kVariateRounds; ++round, k0 += 0x9E3779B9U, k1 += 0xBB67AE85U) {
    const __m256i key0 = _mm256_set1_epi64x(static_cast<long long>(k0));
    const __m256i key1 = _mm256_set1_epi64x(static_cast<long long>(k1));
    for (std::size_t v = 0; v < kVectors; ++v) philox_round(c0[v], c1[v], c2[v], c3[v], key0, key1);
  }
  const __m256i low_half = _mm256_set1_epi64x(0xFFFFFFFFLL);
  for (std::size_t v = 0; v < kVectors; ++v) {
    const __m256i variates = _mm256_or_si256(_mm256_slli_epi64(c0[v], 32), _mm256_and_si256(c1[v], low_half));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * v), variates);
  }
}

template <class Index, class Numbers>
HEADRACE_AVX2 void four_by_four(std::uint64_t key, const Index* nodes, Numbers numbers, std::size_t count,
                                std::uint64_t* out) {
  std::size_t i = 0;
  for (; i + kVariatesAtOnce <= count; i += kVariatesAtOnce) eight(key, nodes + i, numbers + i, out + i);
  one_by_one(key, nodes + i, numbers + i, count - i, out + i);
}

#endif

template <class Index, class Numbers>
void all_variates(std::uint64_t key, const Index* nodes, Numbers numbers, std::size_t count, std::uint64_t* out) {
#ifdef HEADRACE_X86
  if (best_instruction_set() != InstructionSet::kPortable) return four_by_four(key, nodes, numbers, count, out);
#endif
  one_by_one(key, nodes, numbers, count, out);
}

// Those under both keys, chunk by chunk, and what they blend to.
template <class Index, class Numbers>
void all_variates(const VariateKeys& keys, const Index* nodes, Numbers numbers, std::size_t count, std::uint64_t* out) {
  all_variates(keys.key, nodes, numbers, count, out);
  if (!keys.blends) return;
  constexpr std::size_t kChunk = 16 * kVariatesAtOnce;
  std::uint64_t others[kChunk];
  for (std::size_t first = 0; first < count; first += kChunk) {
    const std::size_t size = std::min(kChunk, count - first);
    all_variates(keys.next_key, nodes + first, numbers + first, size, others);
    for (std::size_t i = 0; i < size; ++i) out[first + i] = blended_variate(out[first + i], others[i], keys.turn);
  }
}

}  // namespace

template <class Index>
void labor_variates(const VariateKeys& keys, const Index* nodes, std::size_t count, std::uint64_t* out) {
  all_variates(keys, nodes, NoNumbers(), count, out);
}

template <class Index>
void labor_variates(const VariateKeys& keys, const Index* nodes, const std::uint32_t* numbers, std::size_t count,
                    std::uint64_t* out) {
  all_variates(keys, nodes, numbers, count, out);
}

template void labor_variates<std::int32_t>(const VariateKeys&, const std::int32_t*, std::size_t, std::uint64_t*);
template void labor_variates<std::int64_t>(const VariateKeys&, const std::int64_t*, std::size_t, std::uint64_t*);
template void labor_variates<std::int32_t>(const VariateKeys&, const std::int32_t*, const std::uint32_t*, std::size_t,
                                           std::uint64_t*);
template void labor_variates<std::int64_t>(const VariateKeys&, const std::int64_t*, const std::uint32_t*, std::size_t,
                                           std::uint64_t*);

}  // namespace headrace
