// Copying rows into an output that is too large to stay in the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace headrace {

// Writes past the caches: without this every line of the output is first read from memory to be overwritten. Worth it
// for outputs beyond the second level cache, and possible where rows keep the alignment of 16 bytes.
inline bool can_stream_rows(const char* out, std::size_t row_bytes, std::size_t num_rows) {
#if defined(__SSE2__)
  constexpr std::size_t kLeastBytes = std::size_t{4} << 20;
  return reinterpret_cast<std::uintptr_t>(out) % 16 == 0 && row_bytes % 16 == 0 && row_bytes * num_rows >= kLeastBytes;
#else
  static_cast<void>(out);
  static_cast<void>(row_bytes);
  static_cast<void>(num_rows);
  return false;
#endif
}

inline void stream_row(char* out, const char* row, std::size_t row_bytes) {
#if defined(__SSE2__)
  for (std::size_t offset = 0; offset < row_bytes; offset += 16) {
    const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + offset));
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + offset), piece);
  }
#else
  std::memcpy(out, row, row_bytes);
#endif
}

// Make streamed rows visible to other threads; call once behind the last row.
inline void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace headrace
