#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "core/huge_pages.hpp"
#include "core/memory.hpp"
#include "disk/disk_reader.hpp"
#include "features/decode.hpp"
#include "features/gather.hpp"
#include "features/scatter.hpp"
#include "features/tiers.hpp"

namespace headrace {
namespace {

// Rows cross as addresses: they may have any dtype, also those that NumPy lacks (bfloat16).

void check_places(const char* function, const MaybeArray<std::int64_t>& places, std::size_t num_ids) {
  if (!places || places->shape(0) == num_ids) return;
  throw InputError(std::string(function) + ": expected a place for each of " + std::to_string(num_ids) + " ids, got " +
                   std::to_string(places->shape(0)));
}

template <class Target>
Target target_of(std::uintptr_t out, std::size_t num_out, const MaybeArray<std::int64_t>& places) {
  return {reinterpret_cast<char*>(out), num_out, data_or_null(places)};
}

template <class Id>
void gather(std::uintptr_t source, std::size_t num_rows, std::ptrdiff_t row_stride, std::size_t row_bytes,
            const InArray<Id>& ids, std::uintptr_t out, int num_threads, const MaybeArray<std::int64_t>& places,
            std::size_t num_out) {
  check_places("gather_rows", places, ids.shape(0));
  const RowSource rows{reinterpret_cast<const char*>(source), num_rows, row_stride, row_bytes};
  const auto target = target_of<RowTarget>(out, num_out, places);
  unlocked([&] { gather_rows(rows, ids.data(), ids.shape(0), target, num_threads); });
}

// By their names in torch.
Number number_of(const std::string& dtype) {
  if (dtype == "float16") return Number::kFloat16;
  if (dtype == "bfloat16") return Number::kBfloat16;
  if (dtype == "float32") return Number::kFloat32;
  if (dtype == "float64") return Number::kFloat64;
  if (dtype == "int8") return Number::kInt8;
  if (dtype == "uint8") return Number::kUint8;
  throw InputError("decode_rows: expected a dtype of features, got " + dtype);
}

template <class Id>
void decode(std::uintptr_t source, std::size_t num_rows, std::ptrdiff_t row_stride, std::size_t width,
            const std::string& dtype, const MaybeArray<float>& scale, const MaybeArray<float>& zero_point,
            const MaybeArray<Id>& ids, std::uintptr_t out, const std::string& out_dtype, int num_threads) {
  if (scale) {
    check_length("scale", scale->shape(0), width, "number of a row");
    check_length("zero_point", zero_point ? zero_point->shape(0) : 0, width, "number of a row");
  }
  const CodedRows rows{reinterpret_cast<const char*>(source),
                       num_rows,
                       row_stride,
                       width,
                       number_of(dtype),
                       data_or_null(scale),
                       data_or_null(zero_point)};
  const Number number = number_of(out_dtype);
  const std::size_t num_ids = ids ? ids->shape(0) : num_rows;
  unlocked([&] { decode_rows(rows, data_or_null(ids), num_ids, reinterpret_cast<char*>(out), number, num_threads); });
}

template <class Value, class Id>
void scatter(std::uintptr_t out, std::size_t num_rows, std::size_t width, const InArray<Id>& ids, std::uintptr_t rows,
             int num_threads) {
  unlocked([&] {
    scatter_add_rows(reinterpret_cast<Value*>(out), num_rows, width, ids.data(), ids.shape(0),
                     reinterpret_cast<const Value*>(rows), num_threads);
  });
}

template <class Rank, class Id>
nb::tuple locate(const InArray<Rank>& rank, const InArray<Id>& ids, std::uint64_t replicated, std::uint64_t interleaved,
                 std::uint64_t num_devices, std::uint64_t host, std::uint64_t here, int num_threads) {
  const TierSizes tiers{rank.shape(0), replicated, interleaved, num_devices, host};
  Buffer<std::int32_t> table(ids.shape(0));
  Buffer<std::int64_t> row(ids.shape(0));
  unlocked(
      [&] { locate_rows(tiers, here, rank.data(), ids.data(), ids.shape(0), table.data(), row.data(), num_threads); });
  return arrays(table, row);
}

// Tables cross with their numbers of rows.
void gather_from(const std::vector<std::pair<std::uintptr_t, std::size_t>>& tables, std::size_t row_bytes,
                 const InArray<std::int32_t>& table, const InArray<std::int64_t>& row, std::uintptr_t out,
                 int num_threads, const MaybeArray<std::int64_t>& places, std::size_t num_out) {
  const std::size_t num_ids = table.shape(0);
  check_length("row", row.shape(0), num_ids, "id");
  check_places("gather_tables", places, num_ids);
  std::vector<RowTable> rows;
  for (const auto& [data, num_rows] : tables) rows.push_back({reinterpret_cast<const char*>(data), num_rows});
  const auto target = target_of<RowTarget>(out, num_out, places);
  unlocked([&] {
    gather_tables(rows.data(), rows.size(), row_bytes, table.data(), row.data(), num_ids, target, num_threads);
  });
}

template <class Id>
std::pair<std::uint64_t, std::uint64_t> read(DiskReader& reader, const InArray<Id>& ids, std::uintptr_t out,
                                             std::size_t num_out, const MaybeArray<std::int64_t>& places) {
  check_places("read_rows", places, ids.shape(0));
  const auto target = target_of<DiskTarget>(out, num_out, places);
  const ReadCounts counts = unlocked([&] { return reader.read(ids.data(), ids.shape(0), target); });
  return {counts.reads, counts.bytes};
}

}  // namespace

void bind_features(nb::module_& m) {
  // Uninitialised memory from the pool, as bytes.
  m.def("empty", [](std::size_t bytes) { return to_numpy(Buffer<std::uint8_t>(bytes)); }, "num_bytes"_a);
  m.def("trim_pool", &trim_pool, nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "use_huge_pages",
      [](std::uintptr_t memory, std::size_t num_bytes) {
        return unlocked([&] { return use_huge_pages(reinterpret_cast<void*>(memory), num_bytes); });
      },
      "memory"_a, "num_bytes"_a);
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
  reader.def("set_gap_bytes", &DiskReader::set_gap_bytes, "gap_bytes"_a);
  m.def("gather_tables", &gather_from, "tables"_a, "row_bytes"_a, "table"_array, "row"_array, "out"_a, "num_threads"_a,
        "places"_array = nb::none(), "num_out"_a = 0);
  for_both_widths([&](auto width) {
    using Id = decltype(width);
    m.def("gather_rows", &gather<Id>, "source"_a, "num_rows"_a, "row_stride"_a, "row_bytes"_a, "ids"_array, "out"_a,
          "num_threads"_a, "places"_array = nb::none(), "num_out"_a = 0);
    m.def("decode_rows", &decode<Id>, "source"_a, "num_rows"_a, "row_stride"_a, "width"_a, "dtype"_a,
          "scale"_array.none(), "zero_point"_array.none(), "ids"_array.none(), "out"_a, "out_dtype"_a, "num_threads"_a);
    m.def("scatter_add_float32", &scatter<float, Id>, "out"_a, "num_rows"_a, "width"_a, "ids"_array, "rows"_a,
          "num_threads"_a);
    m.def("scatter_add_float64", &scatter<double, Id>, "out"_a, "num_rows"_a, "width"_a, "ids"_array, "rows"_a,
          "num_threads"_a);
    reader.def("read", &read<Id>, "ids"_array, "out"_a, "num_out"_a, "places"_array = nb::none());
    for_both_widths([&](auto rank_width) {
      m.def("locate_rows", &locate<decltype(rank_width), Id>, "rank"_array, "ids"_array, "replicated"_a,
            "interleaved"_a, "num_devices"_a, "host"_a, "here"_a, "num_threads"_a);
    });
  });
}

}  // namespace headrace
