#include "features/gather.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/errors.hpp"
#include "core/instruction_set.hpp"
#include "core/prefetch.hpp"
#include "features/copy_rows.hpp"

#ifdef HEADRACE_X86
#include <immintrin.h>
#endif

namespace headrace {
namespace {

constexpr std::size_t kPlacesAhead = 8;
constexpr std::size_t kStreamedBytes = std::size_t{32} << 20;  // from here on an output goes past the caches

template <std::size_t kBytes>
HEADRACE_INLINE void copy_word(char* out, const char* row, std::size_t /*bytes*/) {
  std::memcpy(out, row, kBytes);
}

template <class Id>
HEADRACE_INLINE auto rows_of(RowSource source, const Id* ids) {
  return [=](std::size_t i) { return source.data + static_cast<std::ptrdiff_t>(ids[i]) * source.row_stride; };
}

template <CopyRow kCopy, class Id>
void copy_rows_plainly(RowSource source, const Id* ids, std::size_t num_ids, char* out) {
  const std::size_t row_bytes = source.row_bytes;
  copy_rows<kCopy>(row_bytes, num_ids, rows_of(source, ids), [=](std::size_t i) { return out + i * row_bytes; });
}

// Rows that go anywhere: their places are prefetched as well.
template <class Id>
void copy_rows_to_places(RowSource source, const Id* ids, std::size_t num_ids, char* out, const std::int64_t* places) {
  const std::size_t row_bytes = source.row_bytes;
  copy_rows<&copy_any>(row_bytes, num_ids, rows_of(source, ids), [=](std::size_t i) {
    if (i + kPlacesAhead < num_ids) {
      const char* const ahead = out + static_cast<std::size_t>(places[i + kPlacesAhead]) * row_bytes;
      for (std::size_t k = 0; k < std::min(row_bytes, kMaxPrefetchBytes); k += kCacheLineBytes)
        prefetch_write(ahead + k);
    }
    return out + static_cast<std::size_t>(places[i]) * row_bytes;
  });
}

#ifdef HEADRACE_X86

// Past the caches, which do not hold so large an output until it is read: the processor need not fetch the lines that
// it writes. A line that two rows share is written in parts, one right after the other. `bytes` and the place are
// multiples of kPartBytes.
constexpr std::size_t kPartBytes = 16;

HEADRACE_AVX512 void stream_row(char* out, const char* row, std::size_t bytes) {
  const auto stream_part = [&](std::size_t i) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + i)));
  };
  std::size_t i = 0;
  for (; i < bytes && reinterpret_cast<std::uintptr_t>(out + i) % kCacheLineBytes != 0; i += kPartBytes) stream_part(i);
  for (; i + kCacheLineBytes <= bytes; i += kCacheLineBytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), _mm512_loadu_si512(row + i));
  }
  for (; i < bytes; i += kPartBytes) stream_part(i);
}

template <class Id>
HEADRACE_AVX512 void stream_rows(RowSource source, const Id* ids, std::size_t num_ids, char* out) {
  const std::size_t row_bytes = source.row_bytes;
  copy_rows<&stream_row>(row_bytes, num_ids, rows_of(source, ids), [=](std::size_t i) { return out + i * row_bytes; });
  _mm_sfence();  // whoever is told next sees the rows
}

bool can_stream(std::size_t row_bytes, const char* out) {
  return best_instruction_set() == InstructionSet::kAvx512 && row_bytes % kPartBytes == 0 &&
         reinterpret_cast<std::uintptr_t>(out) % kPartBytes == 0;
}

#else

bool can_stream(std::size_t, const char*) { return false; }

template <class Id>
void stream_rows(RowSource, const Id*, std::size_t, char*) {}

#endif

// The loop for rows of `row_bytes` bytes, `out_bytes` of them in all.
template <class Id>
auto copy_rows_of(std::size_t row_bytes, const char* out, std::size_t out_bytes) {
  if (row_bytes == 4) return &copy_rows_plainly<&copy_word<4>, Id>;
  if (row_bytes == 8) return &copy_rows_plainly<&copy_word<8>, Id>;
  if (out_bytes >= kStreamedBytes && can_stream(row_bytes, out)) return &stream_rows<Id>;
  return &copy_rows_plainly<&copy_any, Id>;
}

}  // namespace

void check_places(const RowTarget& out, std::size_t num_ids) {
  const auto outside = [&](std::int64_t place) { return static_cast<std::uint64_t>(place) >= out.num_rows; };
  const std::int64_t* const end = out.places + num_ids;
  if (const std::int64_t* bad = std::find_if(out.places, end, outside); bad != end) {
    throw InputError("gather_rows: places[" + std::to_string(bad - out.places) + "] = " + std::to_string(*bad) +
                     " is no row of out: expected 0 <= place < " + std::to_string(out.num_rows));
  }
}

template <class Id>
void gather_rows(const RowSource& source, const Id* ids, std::size_t num_ids, const RowTarget& out, int num_threads) {
  using Unsigned = std::make_unsigned_t<Id>;
  const auto outside = [&](Id id) { return static_cast<Unsigned>(id) >= source.num_rows; };
  if (const Id* bad = std::find_if(ids, ids + num_ids, outside); bad != ids + num_ids) {
    throw InputError("gather_rows: ids[" + std::to_string(bad - ids) + "] = " + std::to_string(*bad) +
                     " has no row: expected 0 <= id < num_rows = " + std::to_string(source.num_rows) +
                     "; the feature may be shorter than the graph");
  }
  if (out.places != nullptr) check_places(out, num_ids);
  if (source.row_bytes == 0) return;  // nothing to copy, and the arrays may have no memory at all
  const auto copy = copy_rows_of<Id>(source.row_bytes, out.data, num_ids * source.row_bytes);
  copy_in_tasks(source.row_bytes, num_ids, num_threads, [&](std::size_t first, std::size_t count) {
    if (out.places != nullptr) return copy_rows_to_places(source, ids + first, count, out.data, out.places + first);
    copy(source, ids + first, count, out.data + first * source.row_bytes);
  });
}

template void gather_rows<std::int32_t>(const RowSource&, const std::int32_t*, std::size_t, const RowTarget&, int);
template void gather_rows<std::int64_t>(const RowSource&, const std::int64_t*, std::size_t, const RowTarget&, int);

}  // namespace headrace
