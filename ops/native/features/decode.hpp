// Rows in the numbers that they are stored as, decoded while they are gathered.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

enum class Number { kFloat16, kBfloat16, kFloat32, kFloat64, kInt8, kUint8 };

struct CodedRows {
  const char* data;
  std::size_t num_rows;
  std::ptrdiff_t row_stride;  // bytes from one row to the next
  std::size_t width;          // numbers of a row, one behind the other
  Number number;
  const float* scale;       // [width], or null: numbers are what they are
  const float* zero_point;  // [width], with a scale
};

// out[i] = (source[ids[i]] - zero_point) * scale, or the number itself, in float32, then rounded to `number`, one of
// the floating ones. Without ids out[i] is of source[i]. Throws InputError before anything is written if an id has no
// row.
template <class Id>
void decode_rows(const CodedRows& source, const Id* ids, std::size_t num_ids, char* out, Number number,
                 int num_threads);

}  // namespace headrace
