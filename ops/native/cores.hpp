// Where threads run.
#pragma once

#include <cstddef>
#include <thread>

namespace headrace {

// Let a thread that this one has just started begin on another core at once. By itself Linux may leave it behind its
// creator: in a virtual machine it takes the idle cores for busy ones, and milliseconds pass before it moves the
// thread. Does nothing where the process may only use as many cores as there are threads before this one.
void keep_off_this_core(std::thread& helper, std::size_t num_helpers_before) noexcept;

}  // namespace headrace
