// What kernels throw for input a caller can produce. The bindings turn each into the Python class of the same name.
#pragma once

#include <stdexcept>

namespace headrace {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct GraphError : InputError {
  using InputError::InputError;
};

struct ItemsError : InputError {
  using InputError::InputError;
};

struct FeatureError : InputError {
  using InputError::InputError;
};

}  // namespace headrace
