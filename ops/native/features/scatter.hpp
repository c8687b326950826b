// Add rows to the rows of a table that a list of ids names: the backward direction of gather.
#pragma once

#include <cstddef>

namespace headrace {

// out[ids[i]] += rows[i] for i = 0, 1, ... in this order for each row of `out`, whatever num_threads: every row of
// `out` belongs to one thread. Both tables are packed, `width` values a row. Throws InputError before anything is
// written when an id has no row.
template <class Value, class Id>
void scatter_add_rows(Value* out, std::size_t num_rows, std::size_t width, const Id* ids, std::size_t num_ids,
                      const Value* rows, int num_threads);

}  // namespace headrace
