// For what is compiled again for every instruction set that it is called in, and for GPUs.
#pragma once

#define HEADRACE_INLINE inline __attribute__((always_inline))
