// What the memory allows, measured beside what is bounded by it: no gather and no sampler can be faster than this.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "../ops/native/core/prefetch.hpp"

namespace {

constexpr auto kLine = static_cast<std::int64_t>(headrace::kCacheLineBytes);
// Rows are asked for in lots of so many bytes: enough to hide the latency, few enough to be on their way at once.
constexpr std::int64_t kChunkBytes = 8192;
constexpr std::int64_t kMostRows = 128;

template <typename Part>
void in_parallel(std::int64_t count, int num_threads, Part part) {
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) {
    threads.emplace_back(part, count * thread / num_threads, count * (thread + 1) / num_threads);
  }
  part(0, count / num_threads);
  for (std::thread& thread : threads) {
    thread.join();
  }
}

}  // namespace

extern "C" {

// Latency: the address of each load is what the load before it found.
std::int64_t chase(const std::int64_t* next, std::int64_t steps) {
  std::int64_t place = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    place = next[place];
  }
  return place;
}

// Throughput: read one word of every cache line of rows at random places, all known beforehand; nothing is written.
std::int64_t read_rows(const char* table, std::int64_t row_bytes, const std::int64_t* ids, std::int64_t count,
                       int num_threads) {
  std::atomic<std::int64_t> total{0};
  const std::int64_t chunk = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, kMostRows);
  in_parallel(count, num_threads, [&](std::int64_t first, std::int64_t last) {
    // Into the second level cache, which has room for more misses than the first.
    const auto prefetch = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < std::min(to, last); ++i) {
        const char* row = table + ids[i] * row_bytes;
        for (std::int64_t at = 0; at < row_bytes; at += kLine) {
          headrace::prefetch_far(row + at);
        }
      }
    };
    std::int64_t sum = 0;
    prefetch(first, first + chunk);
    for (std::int64_t begin = first; begin < last; begin += chunk) {
      prefetch(begin + chunk, begin + 2 * chunk);
      for (std::int64_t i = begin; i < std::min(begin + chunk, last); ++i) {
        const char* row = table + ids[i] * row_bytes;
        for (std::int64_t at = 0; at < row_bytes; at += kLine) {
          std::int32_t word;
          std::memcpy(&word, row + at, sizeof word);
          sum += word;
        }
      }
    }
    total += sum;
  });
  return total;
}

void copy(char* to, const char* from, std::int64_t bytes, int num_threads) {
  in_parallel(bytes, num_threads,
              [&](std::int64_t first, std::int64_t last) { std::memcpy(to + first, from + first, last - first); });
}

}  // extern "C"
