#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <utility>

#include "bindings/bindings.hpp"
#include "disk/disk_reader.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

// The output crosses as an address: rows may have dtypes that NumPy lacks (bfloat16).
template <class Id>
std::pair<std::uint64_t, std::uint64_t> read(DiskReader& reader, const InArray<Id>& ids, std::uintptr_t out,
                                             std::size_t num_out, const MaybeArray<std::int64_t>& places) {
  if (places && places->shape(0) != ids.shape(0)) {
    throw FeatureError("read_rows: expected a place for each of " + std::to_string(ids.shape(0)) + " ids, got " +
                       std::to_string(places->shape(0)));
  }
  const nb::gil_scoped_release release;
  const DiskTarget target{reinterpret_cast<char*>(out), num_out, data_or_null(places)};
  const ReadCounts counts = reader.read(ids.data(), ids.shape(0), target);
  return {counts.reads, counts.bytes};
}

template <class Id>
void bind_read(nb::class_<DiskReader>& reader) {
  reader.def("read", &read<Id>, "ids"_a.noconvert(), "out"_a, "num_out"_a, "places"_a.noconvert().none() = nb::none());
}

}  // namespace

void bind_disk(nb::module_& m) {
  m.def("has_io_uring", &has_io_uring);
  nb::class_<DiskReader> reader(m, "DiskReader");
  reader.def(
      "__init__",
      [](DiskReader* self, int descriptor, std::string name, std::uint64_t start, std::uint64_t num_rows,
         std::size_t row_bytes, bool io_uring, unsigned queue_depth, std::size_t gap_bytes, bool direct) {
        const DiskEngine engine = io_uring ? DiskEngine::kIoUring : DiskEngine::kThreads;
        new (self) DiskReader(descriptor, std::move(name), {start, num_rows, row_bytes},
                              {engine, queue_depth, gap_bytes, direct});
      },
      "descriptor"_a, "name"_a, "start"_a, "num_rows"_a, "row_bytes"_a, "io_uring"_a, "queue_depth"_a, "gap_bytes"_a,
      "direct"_a);
  reader.def("is_direct", &DiskReader::is_direct);
  bind_read<std::int32_t>(reader);
  bind_read<std::int64_t>(reader);
}

}  // namespace headrace
