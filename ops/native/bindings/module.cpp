#include "bindings/bindings.hpp"
#include "core/errors.hpp"

namespace {

namespace nb = nanobind;

// Raise the class of headrace/ops/errors.py for input that kernels refuse.
void translate_errors() {
  const nb::object error_class = nb::module_::import_("headrace.ops.errors").attr("InputError");
  // The module keeps the class alive for as long as Python runs, hence the bare handle.
  nb::register_exception_translator(
      [](const std::exception_ptr& failure, void* payload) {
        try {
          std::rethrow_exception(failure);
        } catch (const headrace::InputError& error) {
          PyErr_SetString(static_cast<PyObject*>(payload), error.what());
        }
      },
      error_class.inc_ref().ptr());
}

}  // namespace

NB_MODULE(_native, m) {
  // Python does not promise to destroy what is alive when it ends; that is no leak of ours to complain about.
  nb::set_leak_warnings(false);
  m.doc() = "Compiled kernels. Not public: use the functions of headrace.ops.";
  translate_errors();
  headrace::bind_random(m);
  headrace::bind_graph(m);
  headrace::bind_sample(m);
  headrace::bind_layer(m);
  headrace::bind_features(m);
  headrace::bind_walk(m);
  headrace::bind_partition(m);
  headrace::bind_cache(m);
  headrace::bind_aggregate(m);
  headrace::bind_links(m);
}
