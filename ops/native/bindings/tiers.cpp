#include "features/tiers.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "bindings/bindings.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Rank, class Id>
nb::tuple locate(const InArray<Rank>& rank, const InArray<Id>& ids, std::uint64_t replicated, std::uint64_t interleaved,
                 std::uint64_t num_devices, std::uint64_t host, std::uint64_t here, int num_threads) {
  const TierSizes tiers{rank.shape(0), replicated, interleaved, num_devices, host};
  Buffer<std::int32_t> table(ids.shape(0));
  Buffer<std::int64_t> row(ids.shape(0));
  {
    const nb::gil_scoped_release release;
    locate_rows(tiers, here, rank.data(), ids.data(), ids.shape(0), table.data(), row.data(), num_threads);
  }
  return nb::make_tuple(to_numpy(std::move(table)), to_numpy(std::move(row)));
}

// Tables cross as addresses and their numbers of rows, as rows may have any dtype.
void gather(const std::vector<std::pair<std::uintptr_t, std::size_t>>& tables, std::size_t row_bytes,
            const InArray<std::int32_t>& table, const InArray<std::int64_t>& row, std::uintptr_t out, int num_threads,
            const MaybeArray<std::int64_t>& places, std::size_t num_out) {
  const std::size_t num_ids = table.shape(0);
  check_length<FeatureError>("row", row.shape(0), num_ids, "id");
  if (places) check_length<FeatureError>("places", places->shape(0), num_ids, "id");
  std::vector<RowTable> rows;
  for (const auto& [data, num_rows] : tables) rows.push_back({reinterpret_cast<const char*>(data), num_rows});
  const nb::gil_scoped_release release;
  const RowTarget target{reinterpret_cast<char*>(out), num_out, data_or_null(places)};
  gather_tables(rows.data(), rows.size(), row_bytes, table.data(), row.data(), num_ids, target, num_threads);
}

template <class Rank, class Id>
void bind_locate(nb::module_& m) {
  m.def("locate_rows", &locate<Rank, Id>, "rank"_a.noconvert(), "ids"_a.noconvert(), "replicated"_a, "interleaved"_a,
        "num_devices"_a, "host"_a, "here"_a, "num_threads"_a);
}

}  // namespace

void bind_tiers(nb::module_& m) {
  bind_locate<std::int32_t, std::int32_t>(m);
  bind_locate<std::int32_t, std::int64_t>(m);
  bind_locate<std::int64_t, std::int32_t>(m);
  bind_locate<std::int64_t, std::int64_t>(m);
  m.def("gather_tables", &gather, "tables"_a, "row_bytes"_a, "table"_a.noconvert(), "row"_a.noconvert(), "out"_a,
        "num_threads"_a, "places"_a.noconvert().none() = nb::none(), "num_out"_a = 0);
}

}  // namespace headrace
