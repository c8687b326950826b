#include "features/gather.hpp"

#include <optional>

#include "bindings/bindings.hpp"
#include "core/huge_pages.hpp"
#include "core/memory.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

// Rows cross as addresses: a row may have any dtype, also those that NumPy lacks (bfloat16).
template <class Id>
void gather(std::uintptr_t source, std::size_t num_rows, std::ptrdiff_t row_stride, std::size_t row_bytes,
            const InArray<Id>& ids, std::uintptr_t out, int num_threads, const MaybeArray<std::int64_t>& places,
            std::size_t num_out) {
  if (places && places->shape(0) != ids.shape(0)) {
    throw FeatureError("gather_rows: expected a place for each of " + std::to_string(ids.shape(0)) + " ids, got " +
                       std::to_string(places->shape(0)));
  }
  const nb::gil_scoped_release release;
  const RowSource rows{reinterpret_cast<const char*>(source), num_rows, row_stride, row_bytes};
  const RowTarget target{reinterpret_cast<char*>(out), num_out, data_or_null(places)};
  gather_rows(rows, ids.data(), ids.shape(0), target, num_threads);
}

// Uninitialised memory from the pool, as bytes.
nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> empty(std::size_t bytes) {
  return to_numpy(Buffer<std::uint8_t>(bytes));
}

template <class Id>
void bind_ids(nb::module_& m) {
  m.def("gather_rows", &gather<Id>, "source"_a, "num_rows"_a, "row_stride"_a, "row_bytes"_a, "ids"_a.noconvert(),
        "out"_a, "num_threads"_a, "places"_a.noconvert().none() = nb::none(), "num_out"_a = 0);
}

}  // namespace

void bind_gather(nb::module_& m) {
  m.def("empty", &empty, "num_bytes"_a);
  m.def("trim_pool", &trim_pool, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "use_huge_pages",
      [](std::uintptr_t memory, std::size_t num_bytes) {
        const nb::gil_scoped_release release;
        return use_huge_pages(reinterpret_cast<void*>(memory), num_bytes);
      },
      "memory"_a, "num_bytes"_a);
  bind_ids<std::int32_t>(m);
  bind_ids<std::int64_t>(m);
}

}  // namespace headrace
