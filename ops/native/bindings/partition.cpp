#include <algorithm>

#include "bindings/bindings.hpp"
#include "bindings/views.hpp"
#include "partition/owners.hpp"
#include "partition/part_counts.hpp"
#include "partition/stream_partition.hpp"

namespace headrace {
namespace {

constexpr std::int64_t kMostParts = std::int64_t{1} << 30;

void check_parts(const char* function, std::int64_t num_parts) {
  if (num_parts >= 1 && num_parts <= kMostParts) return;
  throw InputError(std::string(function) + ": expected num_parts to be in [1, 2**30], got " +
                   std::to_string(num_parts));
}

OutArray<std::int32_t> owners_of(const InArray<std::int64_t>& ids, std::int64_t num_parts) {
  check_parts("hash_owners", num_parts);
  Buffer<std::int32_t> owners(ids.shape(0));
  unlocked([&] { hash_owners(ids.data(), ids.shape(0), static_cast<std::uint32_t>(num_parts), owners.data()); });
  return to_numpy(std::move(owners));
}

nb::tuple grouped(const MaybeArray<std::int64_t>& ids, const InArray<std::int32_t>& owners, std::int64_t num_parts,
                  std::int64_t first) {
  check_parts("group_by_owner", num_parts);
  if (first < 0 || first >= num_parts) {
    throw InputError("group_by_owner: expected first to be in [0, num_parts), got " + std::to_string(first));
  }
  const std::size_t num_ids = owners.shape(0);
  if (ids && ids->shape(0) != num_ids) {
    throw InputError("group_by_owner: expected an owner for each of " + std::to_string(ids->shape(0)) + " ids, got " +
                     std::to_string(num_ids));
  }
  Buffer<std::int64_t> values(ids ? num_ids : 0);
  Buffer<std::int64_t> places(num_ids);
  Buffer<std::int64_t> counts(static_cast<std::size_t>(num_parts));
  unlocked([&] {
    group_by_owner(data_or_null(ids), owners.data(), num_ids, static_cast<std::size_t>(num_parts),
                   static_cast<std::size_t>(first), values.data(), places.data(), counts.data());
  });
  return arrays(values, places, counts);
}

template <class Index>
OutArray<std::int32_t> stream(const InArray<std::int64_t>& indptr, const InArray<Index>& indices,
                              std::int64_t num_parts, std::int64_t capacity, std::int64_t passes, bool shuffle,
                              std::uint64_t key) {
  return to_numpy(unlocked([&] {
    const CscView<Index> graph = view(indptr, indices);
    auto owners = Buffer<std::int32_t>::long_lived(graph.num_nodes);
    stream_partition(graph, {num_parts, capacity, passes, shuffle, key}, owners.data());
    return owners;
  }));
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
  const PartCounts counts = unlocked([&] {
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
    PartCounts found{edges.data(), copies.data(), want_between ? between.data() : nullptr, 0};
    count_parts(graph, grid, found);
    return found;
  });
  return nb::make_tuple(to_numpy(std::move(edges)), to_numpy(std::move(copies)),
                        to_numpy_or_none(std::move(between), want_between), counts.cut);
}

}  // namespace

void bind_partition(nb::module_& m) {
  m.def("hash_owners", &owners_of, "ids"_array, "num_parts"_a);
  m.def("group_by_owner", &grouped, "ids"_array.none(), "owners"_array, "num_parts"_a, "first"_a);
  for_both_widths([&](auto width) {
    using Index = decltype(width);
    m.def("stream_partition", &stream<Index>, "indptr"_array, "indices"_array, "num_parts"_a, "capacity"_a, "passes"_a,
          "shuffle"_a, "key"_a);
    m.def("count_parts", &counts<Index>, "indptr"_array, "indices"_array, "owners"_array, "num_parts"_a,
          "num_columns"_a, "want_between"_a);
  });
}

}  // namespace headrace
