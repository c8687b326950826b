#include "features/decode.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

#include "core/errors.hpp"
#include "core/instruction_set.hpp"
#include "features/copy_rows.hpp"
#include "features/decode_value.hpp"

namespace headrace {
namespace {

template <class Id>
struct Decoding {
  CodedRows source;
  const Id* ids;
  char* out;
};

template <class In, class Out, class Id>
HEADRACE_INLINE void decode(const Decoding<Id>& decoding, std::size_t first, std::size_t count) {
  const CodedRows source = decoding.source;
  const Id* const ids = decoding.ids;
  Out* const out = reinterpret_cast<Out*>(decoding.out);
  const auto row = [=](std::size_t i) {
    const auto number = ids == nullptr ? static_cast<std::ptrdiff_t>(i) : static_cast<std::ptrdiff_t>(ids[i]);
    return source.data + number * source.row_stride;
  };
  const std::size_t row_bytes = source.width * sizeof(In);
  for_each_row_ahead(row_bytes, first, first + count, row, [=](std::size_t i, const char* bytes) {
    const In* const from = reinterpret_cast<const In*>(bytes);
    Out* const to = out + i * source.width;
    if (source.scale == nullptr) {
      for (std::size_t j = 0; j < source.width; ++j) round_to(as_float(from[j]), to[j]);
    } else {
      for (std::size_t j = 0; j < source.width; ++j) {
        round_to((as_float(from[j]) - source.zero_point[j]) * source.scale[j], to[j]);
      }
    }
  });
}

template <class Id>
using Decode = void (*)(const Decoding<Id>&, std::size_t first, std::size_t count);

template <class In, class Out, class Id>
void decode_portable(const Decoding<Id>& decoding, std::size_t first, std::size_t count) {
  decode<In, Out>(decoding, first, count);
}

#ifdef HEADRACE_X86
template <class In, class Out, class Id>
HEADRACE_AVX2 void decode_avx2(const Decoding<Id>& decoding, std::size_t first, std::size_t count) {
  decode<In, Out>(decoding, first, count);
}
#endif

template <class In, class Out, class Id>
Decode<Id> decode_of() {
#ifdef HEADRACE_X86
  if (best_instruction_set() != InstructionSet::kPortable) return &decode_avx2<In, Out, Id>;
#endif
  return &decode_portable<In, Out, Id>;
}

template <class In, class Id>
Decode<Id> decode_to(Number number) {
  switch (number) {
    case Number::kFloat16:
      return decode_of<In, Float16, Id>();
    case Number::kBfloat16:
      return decode_of<In, Bfloat16, Id>();
    case Number::kFloat32:
      return decode_of<In, float, Id>();
    case Number::kFloat64:
      return decode_of<In, double, Id>();
    default:
      throw InputError("decode_rows: expected rows of a floating dtype to be written");
  }
}

template <class Id>
Decode<Id> decode_from(Number number, Number out) {
  switch (number) {
    case Number::kFloat16:
      return decode_to<Float16, Id>(out);
    case Number::kBfloat16:
      return decode_to<Bfloat16, Id>(out);
    case Number::kFloat32:
      return decode_to<float, Id>(out);
    case Number::kFloat64:
      return decode_to<double, Id>(out);
    case Number::kInt8:
      return decode_to<std::int8_t, Id>(out);
    case Number::kUint8:
      return decode_to<std::uint8_t, Id>(out);
  }
  throw InputError("decode_rows: expected a kind of numbers");
}

std::size_t bytes_of(Number number) {
  if (number == Number::kFloat64) return 8;
  if (number == Number::kFloat32) return 4;
  return number == Number::kInt8 || number == Number::kUint8 ? 1 : 2;
}

}  // namespace

template <class Id>
void decode_rows(const CodedRows& source, const Id* ids, std::size_t num_ids, char* out, Number number,
                 int num_threads) {
  using Unsigned = std::make_unsigned_t<Id>;
  const auto outside = [&](Id id) { return static_cast<Unsigned>(id) >= source.num_rows; };
  if (ids != nullptr) {
    if (const Id* bad = std::find_if(ids, ids + num_ids, outside); bad != ids + num_ids) {
      throw InputError("decode_rows: ids[" + std::to_string(bad - ids) + "] = " + std::to_string(*bad) +
                       " has no row: expected 0 <= id < num_rows = " + std::to_string(source.num_rows) +
                       "; the feature may be shorter than the graph");
    }
  }
  const auto decode = decode_from<Id>(source.number, number);
  if (source.width == 0) return;
  const Decoding<Id> decoding{source, ids, out};
  copy_in_tasks(source.width * bytes_of(number), num_ids, num_threads,
                [&](std::size_t first, std::size_t count) { decode(decoding, first, count); });
}

template void decode_rows<std::int32_t>(const CodedRows&, const std::int32_t*, std::size_t, char*, Number, int);
template void decode_rows<std::int64_t>(const CodedRows&, const std::int64_t*, std::size_t, char*, Number, int);

}  // namespace headrace
