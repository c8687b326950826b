// Copy the rows that a list of ids names.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

struct RowSource {
  const char* data;
  std::size_t num_rows;
  std::ptrdiff_t row_stride;  // bytes from one row to the next; negative and zero strides are fine
  std::size_t row_bytes;
};

// Rows packed one behind the other.
struct RowTarget {
  char* data;
  std::size_t num_rows;
  const std::int64_t* places;  // where each row goes, or null: one after the other
};

// Throws InputError when a place has no row.
void check_places(const RowTarget& out, std::size_t num_ids);

// out[places[i]] = source[ids[i]]. Throws InputError before anything is written when an id or a place has no row.
template <class Id>
void gather_rows(const RowSource& source, const Id* ids, std::size_t num_ids, const RowTarget& out, int num_threads);

}  // namespace headrace
