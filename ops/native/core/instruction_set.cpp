#include "core/instruction_set.hpp"

namespace headrace {

bool has(InstructionSet set) {
#ifdef HEADRACE_X86
  if (set == InstructionSet::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512vl");
  }
  if (set == InstructionSet::kAvx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return set == InstructionSet::kPortable;
}

std::atomic<InstructionSet> chosen_instruction_set{has(InstructionSet::kAvx512) ? InstructionSet::kAvx512
                                                   : has(InstructionSet::kAvx2) ? InstructionSet::kAvx2
                                                                                : InstructionSet::kPortable};

bool use_instruction_set(InstructionSet set) {
  if (!has(set)) return false;
  chosen_instruction_set.store(set, std::memory_order_relaxed);
  return true;
}

}  // namespace headrace
