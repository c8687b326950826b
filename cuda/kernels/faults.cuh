// What is wrong with the input, for the host to find when it looks: for each kind of fault the first item that has it.
#pragma once

#include <cstdint>

namespace headrace {

// `faults` holds the largest integer where there is none.
inline void report(std::int64_t* faults, int kind, std::int64_t item) { atomicMin(faults + kind, item); }

}  // namespace headrace
