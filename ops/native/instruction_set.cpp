#include "instruction_set.hpp"

namespace headrace {

bool has(InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512vl");
  }
  if (set == InstructionSet::kAvx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return set == InstructionSet::kPortable;
}

InstructionSet best_instruction_set() {
  static const InstructionSet best = has(InstructionSet::kAvx512) ? InstructionSet::kAvx512
                                     : has(InstructionSet::kAvx2) ? InstructionSet::kAvx2
                                                                  : InstructionSet::kPortable;
  return best;
}

}  // namespace headrace
