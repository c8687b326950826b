// A LayerReducer whose methods are those of a Python object (headrace.ops.sampling.layer_reducer).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "bindings/bindings.hpp"
#include "layerwise/layer_reducer.hpp"

namespace headrace {

// Kernels run without the GIL; each method takes it for as long as it calls Python. What Python raises passes through
// the kernel as nb::python_error. Python gets copies, which it may keep.
class BoundReducer : public LayerReducer {
 public:
  explicit BoundReducer(nb::object object) : object_(std::move(object)) {
    for (const char* method : {"begin", "counted", "largest", "sums", "total", "gather"}) {
      if (!nb::hasattr(object_, method)) throw nb::type_error("expected reducer to be a LayerReducer or None");
    }
  }

  void begin(const std::int64_t* candidates, std::size_t num_candidates) override {
    num_candidates_ = num_candidates;
    const nb::gil_scoped_acquire acquire;
    object_.attr("begin")(copy(candidates, num_candidates));
  }

  void counted(bool* counted) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object answer = object_.attr("counted")();
    take<InArray<bool>>(answer, "counted", "bool", {num_candidates_}, counted);
  }

  void largest(double* values) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object answer = object_.attr("largest")(copy(values, num_candidates_));
    take<InArray<double>>(answer, "largest", "float64", {num_candidates_}, values);
  }

  void sums(std::int64_t* values, std::size_t width) override {
    using Table = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
    const nb::gil_scoped_acquire acquire;
    Buffer<std::int64_t> copied = copied_of(values, num_candidates_ * width);
    std::int64_t* const data = copied.release();
    const nb::capsule owner(data, [](void* memory) noexcept { give_block(memory); });
    const nb::ndarray<nb::numpy, std::int64_t, nb::ndim<2>> table(data, {num_candidates_, width}, owner);
    const nb::object answer = object_.attr("sums")(table);
    take<Table>(answer, "sums", "int64", {num_candidates_, width}, values);
  }

  void total(std::int64_t* values, std::size_t width) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object answer = object_.attr("total")(copy(values, width));
    take<InArray<std::int64_t>>(answer, "total", "int64", {width}, values);
  }

  Buffer<std::int64_t> gather(const Buffer<std::int64_t>& values) override {
    const nb::gil_scoped_acquire acquire;
    const nb::object answer = object_.attr("gather")(copy(values.data(), values.size()));
    InArray<std::int64_t> array;
    if (!nb::try_cast(answer, array, false)) refuse("gather", "int64", {});
    return copied_of(array.data(), array.shape(0));
  }

 private:
  template <class T>
  static Buffer<T> copied_of(const T* values, std::size_t count) {
    Buffer<T> copied;
    copied.ensure_spare(count + 1);  // so that an empty array has an address too
    copied.resize(count);
    std::copy_n(values, count, copied.data());
    return copied;
  }

  template <class T>
  static OutArray<T> copy(const T* values, std::size_t count) {
    return to_numpy(copied_of(values, count));
  }

  template <class Array, class T>
  static void take(const nb::object& answer, const char* method, const char* dtype,
                   std::initializer_list<std::size_t> shape, T* values) {
    Array array;
    if (!nb::try_cast(answer, array, false)) refuse(method, dtype, shape);
    std::size_t axis = 0;
    for (const std::size_t length : shape) {
      if (array.shape(axis++) != length) refuse(method, dtype, shape);
    }
    std::copy_n(array.data(), array.size(), values);
  }

  [[noreturn]] static void refuse(const char* method, const char* dtype, std::initializer_list<std::size_t> shape) {
    std::string lengths;
    for (const std::size_t length : shape) lengths += (lengths.empty() ? "" : ", ") + std::to_string(length);
    throw InputError(std::string("expected reducer.") + method + " to return a contiguous NumPy array " + dtype + "[" +
                     (shape.size() == 0 ? "n" : lengths) + "]");
  }

  nb::object object_;
  std::size_t num_candidates_ = 0;
};

// None stands for no reducer. Make and destroy it with the GIL.
inline std::unique_ptr<BoundReducer> bound_reducer(nb::object object) {
  return object.is_none() ? nullptr : std::make_unique<BoundReducer>(std::move(object));
}

}  // namespace headrace
