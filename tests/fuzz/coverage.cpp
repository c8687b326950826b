// What ran of the native module, in the form that libFuzzer reads.
//
// GCC calls one function at the beginning of every basic block (-fsanitize-coverage=trace-pc). libFuzzer reads arrays
// of counters instead, which only clang's instrumentation makes. This file stands between: it counts, and says where
// (`coverage.py` tells the fuzzer).

#include <cstddef>
#include <cstdint>
#include <iterator>

// Where the linker put the module: places in the code are counted from there, the same in every process.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

namespace {

// Two blocks may share a counter; with this many few of those that run do. libFuzzer has room for no more: it tells
// 2^21 features apart, eight numbers of times for each counter.
constexpr unsigned kLog2Counters = 18;
std::uint8_t counters[std::size_t{1} << kLog2Counters];

}  // namespace

extern "C" {

// Threads may lose each other's counts, which costs nothing but a count.
__attribute__((no_sanitize("address", "undefined"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  const auto block =
      reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - reinterpret_cast<std::uintptr_t>(__ehdr_start);
  std::uint8_t* counter = &counters[block * 0x9E3779B97F4A7C15u >> (64 - kLog2Counters)];
  const std::uint8_t count = __atomic_load_n(counter, __ATOMIC_RELAXED);
  if (count != UINT8_MAX) __atomic_store_n(counter, static_cast<std::uint8_t>(count + 1), __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) std::uint8_t* fuzz_coverage_begin() { return counters; }

__attribute__((visibility("default"))) std::uint8_t* fuzz_coverage_end() { return std::end(counters); }
}
