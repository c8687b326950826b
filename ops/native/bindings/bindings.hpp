// What the binding files share: array types, the way of a Buffer to NumPy, and who has the interpreter's lock. Bindings
// only check types and lengths, release the lock and call a kernel; the Python modules beside ops/native are the public
// face.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/variant.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "graphs/graph.hpp"

namespace headrace {

namespace nb = nanobind;
using nb::literals::operator""_a;

// The name of an argument that holds arrays, which are taken as they are or not at all: nobody would see a copy.
constexpr auto operator""_array(const char* name, std::size_t /*length*/) { return nb::arg(name).noconvert(); }

template <class T>
using InArray = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MaybeArray = std::optional<InArray<T>>;
template <class T>
using StridedArray = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu>;
template <class T>
using OutArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

// Arrays of either width, or None; their arguments are marked with none().
using AnyIds = std::variant<std::monostate, InArray<std::int32_t>, InArray<std::int64_t>>;
using AnyWeights = std::variant<std::monostate, InArray<float>, InArray<double>>;

template <class... Traits>
bool is_there(const nb::ndarray<Traits...>& array) {
  return array.is_valid();
}
template <class Other>
bool is_there(const Other& /*other*/) {
  return true;
}

// Casts of tuples take None for any array in them.
template <class... Parts>
void check_parts(const std::tuple<Parts...>& given) {
  const bool are_there = std::apply([](const auto&... part) { return (is_there(part) && ...); }, given);
  if (!are_there) throw nb::type_error("expected an array in each place that needs one, got None");
}

template <class Array>
auto data_or_null(const std::optional<Array>& array) {
  return array ? array->data() : nullptr;
}

template <class T>
OutArray<T> to_numpy(Buffer<T>&& buffer) {
  const std::size_t size = buffer.size();
  if (size == 0) buffer.ensure_spare(1);  // so that an empty array has an address too
  T* const data = buffer.release();
  const nb::capsule owner(data, [](void* memory) noexcept { give_block(memory); });
  return OutArray<T>(data, {size}, owner);
}

template <class T>
nb::object to_numpy_or_none(Buffer<T>&& buffer, bool present) {
  return present ? nb::cast(to_numpy(std::move(buffer))) : nb::none();
}

template <class... T>
nb::tuple arrays(Buffer<T>&... buffers) {
  return nb::make_tuple(to_numpy(std::move(buffers))...);
}

// What body() returns, while other threads of Python run.
template <class Body>
auto unlocked(const Body& body) {
  const nb::gil_scoped_release release;
  return body();
}

// Call bind(number) with a number of each width that ids have: a function then has an overload for each.
template <class Bind>
void for_both_widths(const Bind& bind) {
  bind(std::int32_t{});
  bind(std::int64_t{});
}

// The lengths that kernels take for granted. Contents (rows, ids) are checked where they are read.
inline std::size_t num_nodes_of(const InArray<std::int64_t>& indptr) {
  if (indptr.shape(0) == 0) throw InputError("expected indptr to have num_nodes + 1 entries, got none");
  return indptr.shape(0) - 1;
}

inline void check_length(const char* name, std::size_t length, std::size_t expected, const char* per = "edge") {
  if (length == expected) return;
  throw InputError(std::string("expected ") + name + " to have one entry per " + per + " (" + std::to_string(expected) +
                   "), got " + std::to_string(length));
}

template <class Array>
void check_length(const char* name, const std::optional<Array>& array, std::size_t expected, const char* per = "edge") {
  if (array) check_length(name, array->shape(0), expected, per);
}

void bind_aggregate(nb::module_& m);
void bind_cache(nb::module_& m);
void bind_features(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_layer(nb::module_& m);
void bind_links(nb::module_& m);
void bind_partition(nb::module_& m);
void bind_random(nb::module_& m);
void bind_sample(nb::module_& m);
void bind_walk(nb::module_& m);

}  // namespace headrace
