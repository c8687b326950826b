// Which of two messages wins, on the CPU and on GPUs.
#pragma once

#include <cstdint>

#include "core/inline.hpp"

namespace headrace {

// Whether a message takes the place of the one that is held, `winner` being the position of its edge, below 0: none.
// The larger one wins, NaN being above all numbers; of those on one level the one of the lower position. No branch, so
// that columns are compared side by side.
template <class Value>
HEADRACE_INLINE bool takes_place(Value message, std::int64_t position, Value held, std::int64_t winner) {
  const bool message_is_nan = message != message;
  const bool held_is_nan = held != held;
  const bool above = (message > held) | (message_is_nan & !held_is_nan);
  const bool level = (message == held) | (message_is_nan & held_is_nan);
  return above | (winner < 0) | (level & (position < winner));
}

}  // namespace headrace
