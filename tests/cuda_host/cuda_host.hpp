// CUDA's language on a CPU, for kernels that are compiled with a C++ compiler. The threads of a block are fibers of one
// thread of the system, which change places where they wait for each other, at atomic operations, and where they read
// or write memory (accesses.cpp), in an order that a seed decides: so a kernel runs under as many schedules as are
// asked for, and a missing barrier is found. Blocks run one after the other, in an order of the same seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block runs at a time, and so many systems of blocks as there are threads of the system.
#define __shared__ static thread_local

namespace cuda_host {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

struct Position {
  Index thread;
  Index block;
  Index block_size;
  Index grid_size;
};

// Of the thread that runs now. Values, so that reading them is no access to memory.
Index thread_index();
Index block_index();
Index block_size();
Index grid_size();

constexpr unsigned kLanes = 32;

// Other threads may go first.
void step_aside();

// What a thread reads or writes next, at an address that must be a multiple of the alignment.
void access(std::uintptr_t address, std::size_t alignment);

// What a thread waits at, and the line that calls it: for messages.
struct Barrier {
  const char* name;
  const char* file;
  int line;
};

void wait_for_block(const Barrier& barrier);

// Wait for the lanes of the mask; then all of them have what each has given, until the next exchange.
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, const Barrier& barrier);
unsigned lane();

// Run body(argument) for each thread of each block. Returns what is wrong with how threads waited, or null.
using Body = void (*)(const void* argument);
const char* run(unsigned num_blocks, unsigned block_size, std::uint64_t seed, Body body, const void* argument);

template <class Value>
std::uint64_t to_word(Value value) {
  static_assert(sizeof value <= sizeof(std::uint64_t));
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class Value>
Value from_word(std::uint64_t word) {
  Value value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

// Every parameter of a kernel is a word.
template <class... Parameters, std::size_t... kPlaces>
const char* launch(void (*kernel)(Parameters...), const std::uint64_t* words, unsigned num_blocks, unsigned block_size,
                   std::uint64_t seed, std::index_sequence<kPlaces...>) {
  static_assert(((sizeof(Parameters) == sizeof(std::uint64_t)) && ...), "parameters of kernels have 8 bytes each");
  const auto body = [&] { kernel(from_word<std::remove_cv_t<Parameters>>(words[kPlaces])...); };
  using Called = decltype(body);
  return run(num_blocks, block_size, seed, [](const void* called) { (*static_cast<const Called*>(called))(); }, &body);
}

template <class... Parameters>
const char* launch(void (*kernel)(Parameters...), const std::uint64_t* words, std::uint64_t num_words,
                   unsigned num_blocks, unsigned block_size, std::uint64_t seed) {
  if (num_words != sizeof...(Parameters)) return "another number of arguments than the kernel has parameters";
  return launch(kernel, words, num_blocks, block_size, seed, std::index_sequence_for<Parameters...>());
}

}  // namespace cuda_host

#define threadIdx (cuda_host::thread_index())
#define blockIdx (cuda_host::block_index())
#define blockDim (cuda_host::block_size())
#define gridDim (cuda_host::grid_size())

// Code of the stand-in, of which no access to memory is one of the kernel.
#define CUDA_HOST_OWN __attribute__((noinline, no_sanitize("thread")))
#define CUDA_HOST_CALLER const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CUDA_HOST_CALLER) { cuda_host::wait_for_block({"__syncthreads", file, line}); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, CUDA_HOST_CALLER) {
  cuda_host::exchange(mask, 0, {"__syncwarp", file, line});
}

template <class Value>
CUDA_HOST_OWN Value __shfl_sync(unsigned mask, Value value, int from, CUDA_HOST_CALLER) {
  const std::uint64_t* const words = cuda_host::exchange(mask, cuda_host::to_word(value), {"__shfl_sync", file, line});
  return cuda_host::from_word<Value>(words[static_cast<unsigned>(from) % cuda_host::kLanes]);
}

template <class Value>
CUDA_HOST_OWN Value __shfl_up_sync(unsigned mask, Value value, unsigned by, CUDA_HOST_CALLER) {
  const std::uint64_t* const words =
      cuda_host::exchange(mask, cuda_host::to_word(value), {"__shfl_up_sync", file, line});
  const unsigned lane = cuda_host::lane();
  return lane < by ? value : cuda_host::from_word<Value>(words[lane - by]);
}

template <class Value>
CUDA_HOST_OWN Value __shfl_xor_sync(unsigned mask, Value value, int with, CUDA_HOST_CALLER) {
  const std::uint64_t* const words =
      cuda_host::exchange(mask, cuda_host::to_word(value), {"__shfl_xor_sync", file, line});
  return cuda_host::from_word<Value>(words[cuda_host::lane() ^ static_cast<unsigned>(with)]);
}

CUDA_HOST_OWN inline unsigned __ballot_sync(unsigned mask, int predicate, CUDA_HOST_CALLER) {
  const std::uint64_t* const words = cuda_host::exchange(mask, predicate != 0 ? 1 : 0, {"__ballot_sync", file, line});
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < cuda_host::kLanes; ++lane) {
    if ((mask >> lane & 1U) != 0 && words[lane] != 0) ballot |= 1U << lane;
  }
  return ballot;
}

inline int __any_sync(unsigned mask, int predicate, CUDA_HOST_CALLER) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
// A read of memory that no thread of the launch writes.
template <class Value>
Value __ldg(const Value* address) {
  return *address;
}

inline int __clzll(long long value) {
  return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}
inline long long __double_as_longlong(double value) {
  return cuda_host::from_word<long long>(cuda_host::to_word(value));
}
inline double __longlong_as_double(long long value) { return cuda_host::from_word<double>(cuda_host::to_word(value)); }

// Whoever reads, changes and writes without an atomic operation loses what others write between.
template <class Value, class Change>
CUDA_HOST_OWN Value cuda_host_atomic(Value* address, const Change& change) {
  cuda_host::step_aside();
  const Value before = *address;
  *address = change(before);
  cuda_host::step_aside();
  return before;
}

template <class Value>
Value atomicAdd(Value* address, std::common_type_t<Value> value) {
  return cuda_host_atomic(address, [=](Value before) { return static_cast<Value>(before + value); });
}
template <class Value>
Value atomicMin(Value* address, std::common_type_t<Value> value) {
  return cuda_host_atomic(address, [=](Value before) { return value < before ? value : before; });
}
template <class Value>
Value atomicMax(Value* address, std::common_type_t<Value> value) {
  return cuda_host_atomic(address, [=](Value before) { return before < value ? value : before; });
}
template <class Value>
Value atomicExch(Value* address, std::common_type_t<Value> value) {
  return cuda_host_atomic(address, [=](Value) { return value; });
}
template <class Value>
Value atomicCAS(Value* address, std::common_type_t<Value> expected, std::common_type_t<Value> value) {
  return cuda_host_atomic(address, [=](Value before) { return before == expected ? value : before; });
}

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
