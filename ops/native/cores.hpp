// Where helper threads run.
#pragma once

#include <cstddef>
#include <thread>

#ifdef __linux__
#include <sched.h>
#endif

namespace headrace {

// Keeps helpers off the core of the thread that makes this. By itself Linux may put a new thread, or one that wakes up,
// behind that thread: in a virtual machine it takes idle cores for busy ones, and milliseconds pass before it moves one
// of the two. What the system refuses costs nothing but speed.
class OtherCores {
 public:
  OtherCores() noexcept;

  // For the creator: keep a helper off this core from now on, if there are cores for it and the helpers before it. The
  // helper must not have ended: the system would take the creator for it.
  void place(std::thread& helper, std::size_t num_helpers_before) const noexcept;

#ifdef __linux__

 private:
  bool known_ = false;
  cpu_set_t allowed_;
#endif
};

}  // namespace headrace
