// Thrown by kernels for input that a caller can produce. The bindings turn it into the Python class of the same name.
#pragma once

#include <stdexcept>

namespace headrace {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace headrace
