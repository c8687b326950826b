// What a disk gives: reads of one size at given offsets, a given number at a time. Nothing is sorted, merged or kept.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "disk/io_uring.hpp"

namespace {

constexpr std::int64_t kBlock = 4096;

struct Reads {
  int file;
  const std::int64_t* offsets;
  std::int64_t count;
  std::int64_t bytes;
  bool direct;  // then of the whole blocks that the bytes are in

  std::int64_t begin(std::int64_t i) const { return direct ? offsets[i] / kBlock * kBlock : offsets[i]; }
  std::int64_t size(std::int64_t i) const {
    return direct ? (offsets[i] + bytes + kBlock - 1) / kBlock * kBlock - begin(i) : bytes;
  }
};

char* room(const Reads& reads, int depth) {
  const std::int64_t each = (reads.bytes / kBlock + 2) * kBlock;
  return static_cast<char*>(std::aligned_alloc(kBlock, static_cast<std::size_t>(each * depth)));
}

bool by_threads(const Reads& reads, int depth, char* memory) {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> good{true};
  std::vector<std::thread> threads;
  for (int k = 0; k < depth; ++k) {
    threads.emplace_back([&, k] {
      char* const own = memory + k * (reads.bytes / kBlock + 2) * kBlock;
      for (std::int64_t i = next++; i < reads.count; i = next++) {
        if (pread(reads.file, own, static_cast<std::size_t>(reads.size(i)), reads.begin(i)) < reads.bytes) good = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return good;
}

#ifdef HEADRACE_IO_URING
bool by_ring(const Reads& reads, int depth, char* memory) {
  headrace::IoUring ring(static_cast<unsigned>(depth));
  std::vector<std::uint64_t> free;
  for (int k = 0; k < depth; ++k) free.push_back(static_cast<std::uint64_t>(k));
  bool good = true;
  for (std::int64_t i = 0, done = 0; done < reads.count;) {
    for (; !free.empty() && i < reads.count; ++i) {
      const std::uint64_t slot = free.back();
      free.pop_back();
      char* const own = memory + static_cast<std::int64_t>(slot) * (reads.bytes / kBlock + 2) * kBlock;
      ring.queue_read(reads.file, own, static_cast<std::size_t>(reads.size(i)),
                      static_cast<std::uint64_t>(reads.begin(i)), slot);
    }
    if (ring.submit_and_wait() != 0) return false;
    for (headrace::IoUring::Done one; ring.take(one); ++done) {
      free.push_back(one.number);
      good = good && one.outcome >= reads.bytes;
    }
  }
  return good;
}
#else
bool by_ring(const Reads&, int, char*) { return false; }
#endif

}  // namespace

// Seconds of all reads, or a negative number when one failed.
extern "C" double read_at(const char* path, const std::int64_t* offsets, std::int64_t count, std::int64_t bytes,
                          int depth, int direct, int io_uring) {
  const int file = open(path, O_RDONLY | (direct ? O_DIRECT : 0));
  if (file < 0) return -1;
  if (!direct) posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
  const Reads reads{file, offsets, count, bytes, direct != 0};
  char* const memory = room(reads, depth);
  const auto started = std::chrono::steady_clock::now();
  const bool good = io_uring ? by_ring(reads, depth, memory) : by_threads(reads, depth, memory);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started;
  std::free(memory);
  close(file);
  return good ? taken.count() : -1;
}
