// Rows of which a cache in memory of this device has some, and the others lie where a gather reads them.

#include <cstdint>

#include "copy_row.cuh"
#include "grid.cuh"

namespace headrace {

// out[i] = cache[slots[i]] where the slot is not below 0, else source[ids[i]], rows of `row_words` words, `stride`
// apart in the source. No slot is filled before all are read: that is for the next launch.
template <class Id, class Word>
__global__ void gather_cached(const Word* cache, const std::int64_t* slots, const Word* source, std::int64_t stride,
                              const Id* ids, std::int64_t num_ids, std::int64_t row_words, Word* out) {
  for_each_by_warp(num_ids, [&](std::int64_t i, int lane) {
    const std::int64_t slot = slots[i];
    const Word* const from = slot >= 0 ? cache + slot * row_words : source + static_cast<std::int64_t>(ids[i]) * stride;
    copy_row(from, out + i * row_words, row_words, lane);
  });
}

// The same for rows so short that a warp copies several: a thread for each word.
template <class Id, class Word>
__global__ void gather_short_cached(const Word* cache, const std::int64_t* slots, const Word* source,
                                    std::int64_t stride, const Id* ids, std::int64_t num_ids, std::int64_t row_words,
                                    Word* out) {
  for_each_item(num_ids * row_words, [&](std::int64_t item) {
    const std::int64_t i = item / row_words;
    const std::int64_t word = item % row_words;
    const std::int64_t slot = slots[i];
    out[item] = slot >= 0 ? cache[slot * row_words + word] : source[static_cast<std::int64_t>(ids[i]) * stride + word];
  });
}

// cache[fills[i]] = rows[i], where the slot is not below 0; no slot is there twice.
template <class Word>
__global__ void fill_cache(Word* cache, const std::int64_t* fills, const Word* rows, std::int64_t num_rows,
                           std::int64_t row_words) {
  for_each_item(num_rows * row_words, [&](std::int64_t item) {
    const std::int64_t slot = fills[item / row_words];
    if (slot >= 0) cache[slot * row_words + item % row_words] = rows[item];
  });
}

}  // namespace headrace
