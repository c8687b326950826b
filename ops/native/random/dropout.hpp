// Which elements of rows dropout keeps, by the ids of the rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// kept[i, j] = word j of the stream of ids[i] is at least `threshold`: of 2**32 words that many are dropped.
void dropout_mask(std::uint64_t key, const std::int64_t* ids, std::size_t num_ids, std::size_t width,
                  std::uint64_t threshold, bool* kept, int num_threads);

}  // namespace headrace
