#include "features/scatter.hpp"

#include "bindings/bindings.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Value, class Id>
void scatter(std::uintptr_t out, std::size_t num_rows, std::size_t width, const InArray<Id>& ids, std::uintptr_t rows,
             int num_threads) {
  const nb::gil_scoped_release release;
  scatter_add_rows(reinterpret_cast<Value*>(out), num_rows, width, ids.data(), ids.shape(0),
                   reinterpret_cast<const Value*>(rows), num_threads);
}

// Tables cross as addresses, as in gather.
template <class Value>
void bind_value(nb::module_& m, const char* name) {
  const auto bind = [&](auto function) {
    m.def(name, function, "out"_a, "num_rows"_a, "width"_a, "ids"_a.noconvert(), "rows"_a, "num_threads"_a);
  };
  bind(&scatter<Value, std::int32_t>);
  bind(&scatter<Value, std::int64_t>);
}

}  // namespace

void bind_scatter(nb::module_& m) {
  bind_value<float>(m, "scatter_add_float32");
  bind_value<double>(m, "scatter_add_float64");
}

}  // namespace headrace
