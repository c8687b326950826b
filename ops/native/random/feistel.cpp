#include "random/feistel.hpp"

#include <cmath>
#include <cstddef>

#include "random/stream.hpp"
#include "random/stream_words.hpp"
#include "random/vector_philox.hpp"
#include "random/vector_words.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace headrace {
namespace {

// As many as fill two of the widest vectors: a second one hides the multiplier's latency.
constexpr std::size_t kLanes = 16;
constexpr int kFeistelRounds = 10;

// Columns are the smallest even number whose square holds all items, rows then as few as will do.
struct Grid {
  explicit Grid(std::uint64_t num_items) {
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(num_items)));
    while (root * root < num_items) ++root;
    while (root > 1 && (root - 1) * (root - 1) >= num_items) --root;
    columns = root + root % 2;
    const std::uint64_t least = (num_items + columns - 1) / columns;
    rows = least + least % 2;
  }

  std::uint64_t rows;
  std::uint64_t columns;
};

// One number below 2^32 for each of kLanes values, in 64-bit lanes.
struct Coordinates {
  alignas(64) std::uint64_t row[kLanes];
  alignas(64) std::uint64_t column[kLanes];
};

// floor(F * size / 2^64) of what a round makes of the other coordinate.
std::uint64_t addend(const StreamKeys& keys, std::uint32_t round, std::uint64_t other, std::uint64_t size) {
  const PhiloxCounter words = stream_block(keys.key, other, round);
  return (words[0] * size + (words[1] * size >> 32)) >> 32;
}

void permute_portable(const StreamKeys& keys, const Grid& grid, Coordinates& at) {
  for (std::size_t i = 0; i < kLanes; ++i) {
    std::uint64_t row = at.row[i];
    std::uint64_t column = at.column[i];
    for (std::uint32_t round = 0; round < kFeistelRounds; round += 2) {
      row += addend(keys, round, column, grid.rows);
      if (row >= grid.rows) row -= grid.rows;
      column += addend(keys, round + 1, row, grid.columns);
      if (column >= grid.columns) column -= grid.columns;
    }
    at.row[i] = row;
    at.column[i] = column;
  }
}

#if defined(__x86_64__)

// Philox4x32-10 of the counters (other, 0, round, 0). Sums and sizes are below 2^33, so a difference is negative, or
// minimal as an unsigned number, exactly where the sum is not too large.

HEADRACE_AVX2 HEADRACE_INLINE void round_avx2(const StreamKeys& keys, std::uint32_t round, const std::uint64_t* other,
                                              std::uint64_t size, std::uint64_t* changed) {
  constexpr int kVectors = kLanes / 4;
  __m256i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    c0[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(other) + v);
    c1[v] = c3[v] = _mm256_setzero_si256();
    c2[v] = _mm256_set1_epi64x(round);
  }
  for (int r = 0; r < kStreamRounds; ++r) {
    const __m256i key0 = _mm256_set1_epi64x(keys.low[r]);
    const __m256i key1 = _mm256_set1_epi64x(keys.high[r]);
    for (int v = 0; v < kVectors; ++v) philox_round(c0[v], c1[v], c2[v], c3[v], key0, key1);
  }
  const __m256i sizes = _mm256_set1_epi64x(static_cast<long long>(size));
  for (int v = 0; v < kVectors; ++v) {
    auto* const place = reinterpret_cast<__m256i*>(changed) + v;
    const __m256i below = _mm256_srli_epi64(_mm256_mul_epu32(c1[v], sizes), 32);
    const __m256i added = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epu32(c0[v], sizes), below), 32);
    const __m256i sum = _mm256_add_epi64(_mm256_load_si256(place), added);
    const __m256i less = _mm256_sub_epi64(sum, sizes);
    const __m256i back = _mm256_and_si256(_mm256_cmpgt_epi64(_mm256_setzero_si256(), less), sizes);
    _mm256_store_si256(place, _mm256_add_epi64(less, back));
  }
}

HEADRACE_AVX2 void permute_avx2(const StreamKeys& keys, const Grid& grid, Coordinates& at) {
  for (std::uint32_t round = 0; round < kFeistelRounds; round += 2) {
    round_avx2(keys, round, at.column, grid.rows, at.row);
    round_avx2(keys, round + 1, at.row, grid.columns, at.column);
  }
}

// GCC takes the undefined registers in its own AVX-512 header for our omission (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

HEADRACE_AVX512 HEADRACE_INLINE void round_avx512(const StreamKeys& keys, std::uint32_t round,
                                                  const std::uint64_t* other, std::uint64_t size,
                                                  std::uint64_t* changed) {
  constexpr int kVectors = kLanes / 8;
  const __m512i multiplier0 = _mm512_set1_epi64(0xD2511F53LL);
  const __m512i multiplier1 = _mm512_set1_epi64(0xCD9E8D57LL);
  __m512i c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    c0[v] = _mm512_load_si512(other + 8 * v);
    c1[v] = c3[v] = _mm512_setzero_si512();
    c2[v] = _mm512_set1_epi64(round);
  }
  for (int r = 0; r < kStreamRounds; ++r) {
    const __m512i key0 = _mm512_set1_epi64(keys.low[r]);
    const __m512i key1 = _mm512_set1_epi64(keys.high[r]);
    for (int v = 0; v < kVectors; ++v) {
      const __m512i product0 = _mm512_mul_epu32(c0[v], multiplier0);
      const __m512i product1 = _mm512_mul_epu32(c2[v], multiplier1);
      c0[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product1, 32), c1[v], key0, kXor3);
      c2[v] = _mm512_ternarylogic_epi64(_mm512_srli_epi64(product0, 32), c3[v], key1, kXor3);
      c1[v] = product1;
      c3[v] = product0;
    }
  }
  const __m512i sizes = _mm512_set1_epi64(static_cast<long long>(size));
  for (int v = 0; v < kVectors; ++v) {
    const __m512i below = _mm512_srli_epi64(_mm512_mul_epu32(c1[v], sizes), 32);
    const __m512i added = _mm512_srli_epi64(_mm512_add_epi64(_mm512_mul_epu32(c0[v], sizes), below), 32);
    const __m512i sum = _mm512_add_epi64(_mm512_load_si512(changed + 8 * v), added);
    _mm512_store_si512(changed + 8 * v, _mm512_min_epu64(sum, _mm512_sub_epi64(sum, sizes)));
  }
}

HEADRACE_AVX512 void permute_avx512(const StreamKeys& keys, const Grid& grid, Coordinates& at) {
  for (std::uint32_t round = 0; round < kFeistelRounds; round += 2) {
    round_avx512(keys, round, at.column, grid.rows, at.row);
    round_avx512(keys, round + 1, at.row, grid.columns, at.column);
  }
}

#pragma GCC diagnostic pop

#endif

void permute(const StreamKeys& keys, const Grid& grid, Coordinates& at, InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return permute_avx512(keys, grid, at);
  if (set == InstructionSet::kAvx2) return permute_avx2(keys, grid, at);
#endif
  static_cast<void>(set);
  permute_portable(keys, grid, at);
}

}  // namespace

void feistel_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                   std::int64_t* out, InstructionSet set) {
  if (start == stop) return;
  const Grid grid(num_items);
  const StreamKeys keys(key);
  // Lanes whose walk is over take the next position: few go round more than once.
  Coordinates at{};
  std::uint64_t place[kLanes];
  std::size_t walking = 0;
  std::uint64_t next = start;
  while (next != stop || walking != 0) {
    for (; walking != kLanes && next != stop; ++walking, ++next) {
      place[walking] = next - start;
      at.row[walking] = next / grid.columns;
      at.column[walking] = next % grid.columns;
    }
    permute(keys, grid, at, set);
    std::size_t left = 0;
    for (std::size_t i = 0; i < walking; ++i) {
      const std::uint64_t value = at.row[i] * grid.columns + at.column[i];
      if (value < num_items) {
        out[place[i]] = static_cast<std::int64_t>(value);
      } else {
        // Cycle walking (Black and Rogaway, CT-RSA 2002): the walk from an item soon meets another one, and the walks
        // together are a permutation of the items.
        place[left] = place[i];
        at.row[left] = at.row[i];
        at.column[left++] = at.column[i];
      }
    }
    walking = left;
  }
}

}  // namespace headrace
