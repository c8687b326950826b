#include <algorithm>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "partition/part_counts.hpp"
#include "partition/stream_partition.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

template <class Index>
OutArray<std::int32_t> stream(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                              std::int64_t num_parts, std::int64_t capacity, std::int64_t passes, bool shuffle,
                              std::uint64_t key) {
  Buffer<std::int32_t> owners;
  {
    const nb::gil_scoped_release release;
    const CscView<Index> graph = view(indptr, indices);
    owners = Buffer<std::int32_t>::long_lived(graph.num_nodes);
    stream_partition(graph, {num_parts, capacity, passes, shuffle, key}, owners.data());
  }
  return to_numpy(std::move(owners));
}

Buffer<std::int64_t> zeros(std::size_t size) {
  Buffer<std::int64_t> buffer(size);
  std::fill(buffer.data(), buffer.data() + size, 0);
  return buffer;
}

template <class Index>
nb::tuple counts(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                 const InArray<std::int32_t>& owners, std::int64_t num_parts, std::int64_t num_columns,
                 bool want_between) {
  Buffer<std::int64_t> edges;
  Buffer<std::int64_t> copies;
  Buffer<std::int64_t> between;
  PartCounts counts{};
  {
    const nb::gil_scoped_release release;
    const CscView<Index> graph = view(indptr, indices);
    check_length("owners", owners.shape(0), graph.num_nodes, "node");
    const PartGrid grid{owners.data(), num_parts, num_columns};
    check_grid(grid, graph.num_nodes);
    if (want_between && num_parts > kMostPartsOfMatrix) {
      throw InputError("edges between parts are counted for at most " + std::to_string(kMostPartsOfMatrix) +
                       " parts, got " + std::to_string(num_parts));
    }
    const auto size = static_cast<std::size_t>(num_parts);
    edges = zeros(size);
    copies = zeros(size);
    between = zeros(want_between ? size * size : 0);
    counts = {edges.data(), copies.data(), want_between ? between.data() : nullptr, 0};
    count_parts(graph, grid, counts);
  }
  nb::object matrix = nb::none();
  if (want_between) matrix = nb::cast(to_numpy(std::move(between)));
  return nb::make_tuple(to_numpy(std::move(edges)), to_numpy(std::move(copies)), matrix, counts.cut);
}

template <class Index>
void bind_index(nb::module_& m) {
  m.def("stream_partition", &stream<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "num_parts"_a,
        "capacity"_a, "passes"_a, "shuffle"_a, "key"_a);
  m.def("count_parts", &counts<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "owners"_a.noconvert(),
        "num_parts"_a, "num_columns"_a, "want_between"_a);
}

}  // namespace

void bind_partition(nb::module_& m) {
  bind_index<std::int32_t>(m);
  bind_index<std::int64_t>(m);
}

}  // namespace headrace
