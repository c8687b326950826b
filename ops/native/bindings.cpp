#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>

#include "philox.hpp"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  m.def("philox4x32", &headrace::philox4x32, nb::arg("counter"), nb::arg("key"));
}
