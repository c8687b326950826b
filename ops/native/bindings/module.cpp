#include "bindings/bindings.hpp"
#include "core/errors.hpp"

namespace {

namespace nb = nanobind;

// Raise the class of headrace/ops/errors.py that has the name of the C++ class.
template <class Error>
void translate(const nb::module_& errors, const char* name) {
  // The module keeps the class alive for as long as Python runs, hence the bare handle.
  const nb::object error_class = errors.attr(name);
  nb::register_exception_translator(
      [](const std::exception_ptr& failure, void* payload) {
        try {
          std::rethrow_exception(failure);
        } catch (const Error& error) {
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
  const nb::module_ errors = nb::module_::import_("headrace.ops.errors");
  // Tried last first: derived classes come after their base.
  translate<headrace::InputError>(errors, "InputError");
  translate<headrace::GraphError>(errors, "GraphError");
  translate<headrace::ItemsError>(errors, "ItemsError");
  translate<headrace::FeatureError>(errors, "FeatureError");
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
