// What the binding files share: array types and the hand-over of a Buffer to NumPy. Bindings only check types and
// lengths, release the GIL and call a kernel; the Python modules beside ops/native are the public face.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "graphs/graph.hpp"

namespace headrace {

namespace nb = nanobind;

template <class T>
using InArray = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using MaybeArray = std::optional<InArray<T>>;
template <class T>
using StridedArray = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu>;
template <class T>
using OutArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

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

// The lengths that kernels take for granted. Contents (rows, ids) are checked where they are read.
inline std::size_t num_nodes_of(const InArray<std::int64_t>& indptr) {
  if (indptr.shape(0) == 0) throw GraphError("expected indptr to have num_nodes + 1 entries, got none");
  return indptr.shape(0) - 1;
}

template <class Error = GraphError>
void check_length(const char* name, std::size_t length, std::size_t expected, const char* per = "edge") {
  if (length == expected) return;
  throw Error(std::string("expected ") + name + " to have one entry per " + per + " (" + std::to_string(expected) +
              "), got " + std::to_string(length));
}

void bind_random(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_sample(nb::module_& m);
void bind_layer(nb::module_& m);
void bind_gather(nb::module_& m);
void bind_tiers(nb::module_& m);
void bind_disk(nb::module_& m);
void bind_walk(nb::module_& m);
void bind_saint(nb::module_& m);
void bind_scatter(nb::module_& m);
void bind_owners(nb::module_& m);
void bind_dropout(nb::module_& m);
void bind_partition(nb::module_& m);
void bind_join_hops(nb::module_& m);
void bind_cache(nb::module_& m);
void bind_spread(nb::module_& m);
void bind_aggregate(nb::module_& m);
void bind_links(nb::module_& m);

}  // namespace headrace
