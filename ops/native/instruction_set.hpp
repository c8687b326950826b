// The instruction sets that inner loops are written for.
#pragma once

namespace headrace {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

// Whether this machine has it.
bool has(InstructionSet set);

// The best one that this machine has; asked once per process.
InstructionSet best_instruction_set();

}  // namespace headrace
