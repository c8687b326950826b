#include "random/dropout.hpp"

#include <algorithm>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "random/stream_words.hpp"

namespace headrace {

namespace {

constexpr std::size_t kWordsPerTask = 1 << 16;
constexpr double kWordNanoseconds = 1;  // what one thread takes about for one

}  // namespace

void dropout_mask(std::uint64_t key, const std::int64_t* ids, std::size_t num_ids, std::size_t width,
                  std::uint64_t threshold, bool* kept, int num_threads) {
  if (width == 0) return;
  const StreamKeys keys(key);
  const std::size_t rows_per_task = std::max<std::size_t>(1, kWordsPerTask / width);
  const std::size_t num_tasks = (num_ids + rows_per_task - 1) / rows_per_task;
  num_threads = threads_for(num_threads, kWordNanoseconds * static_cast<double>(num_ids) * static_cast<double>(width));
  parallel_for(num_threads, num_tasks, [&](std::size_t task) {
    Buffer<std::uint32_t> words(width + kWordsSlack);
    const std::size_t end = std::min(num_ids, (task + 1) * rows_per_task);
    for (std::size_t i = task * rows_per_task; i < end; ++i) {
      stream_words(keys, static_cast<std::uint64_t>(ids[i]), 0, width, words.data());
      bool* const row = kept + i * width;
      for (std::size_t j = 0; j < width; ++j) row[j] = words[j] >= threshold;
    }
  });
}

}  // namespace headrace
