// The instruction sets that inner loops are written for.
#pragma once

// Whether variants for the instruction sets of x86-64 are compiled; a build may ask for the portable code alone.
#if defined(__x86_64__) && !defined(HEADRACE_PORTABLE)
#define HEADRACE_X86
#endif

#ifdef HEADRACE_X86
#define HEADRACE_AVX2 __attribute__((target("avx2,popcnt")))
#define HEADRACE_AVX512 __attribute__((target("avx512f,avx512bw,avx512cd,avx512vl,popcnt,prefer-vector-width=512")))
#endif

#include <atomic>

#include "core/inline.hpp"

namespace headrace {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

// The one in use, for best_instruction_set.
extern std::atomic<InstructionSet> chosen_instruction_set;

// Whether this machine has it.
bool has(InstructionSet set);

// The best one that this machine has, unless another was asked for.
inline InstructionSet best_instruction_set() { return chosen_instruction_set.load(std::memory_order_relaxed); }

// Use this one from now on, in every thread. For the tests, as all give the same. False if the machine lacks it.
bool use_instruction_set(InstructionSet set);

}  // namespace headrace
