#include "sampling/join_hops.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings/views.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

InArray<std::int64_t> wide_array(nb::handle array) {
  if (InArray<std::int64_t> wide; nb::try_cast(array, wide, false)) return wide;
  throw nb::type_error("expected a contiguous one-dimensional array of int64");
}

void check_hops(const char* name, std::size_t num_arrays, std::size_t num_hops) {
  if (num_arrays == num_hops) return;
  throw InputError(std::string("join_hops: expected ") + name + " of " + std::to_string(num_hops) +
                   " hops, as there are indptrs, got those of " + std::to_string(num_arrays));
}

nb::tuple joined_hops(const nb::list& indptrs, const nb::list& indices, const std::optional<nb::list>& edge_ids) {
  const std::size_t num_hops = indptrs.size();
  check_hops("indices", indices.size(), num_hops);
  if (edge_ids) check_hops("edge_ids", edge_ids->size(), num_hops);
  if (!edge_ids && num_hops > 1) throw InputError("join_hops: several hops need edge_ids, got none");
  // Lists can be changed by other threads while the kernel runs: what it reads is held here.
  std::vector<InArray<std::int64_t>> held_indptrs;
  std::vector<AnyIds> held_sources;
  std::vector<InArray<std::int64_t>> held_edge_ids;
  std::vector<HopEdges> hops;
  for (std::size_t h = 0; h < num_hops; ++h) {
    held_indptrs.push_back(wide_array(indptrs[h]));
    held_sources.push_back(any_ids(indices[h]));
    if (held_sources[h].index() == 0) throw nb::type_error("expected indices of each hop, got None");
    const std::size_t num_edges = size(held_sources[h]);
    hops.push_back({held_indptrs[h].data(), num_nodes_of(held_indptrs[h]), view(held_sources[h]), num_edges, nullptr});
    if (!edge_ids) continue;
    held_edge_ids.push_back(wide_array((*edge_ids)[h]));
    check_length("edge_ids", held_edge_ids[h].shape(0), num_edges);
    hops[h].edge_ids = held_edge_ids[h].data();
  }
  JoinedHops joined;
  {
    const nb::gil_scoped_release release;
    joined = join_hops(hops);
  }
  nb::list kept;
  for (Buffer<std::int64_t>& positions : joined.kept) kept.append(to_numpy(std::move(positions)));
  nb::object ids = nb::none();
  if (edge_ids) ids = nb::cast(to_numpy(std::move(joined.edge_ids)));
  return nb::make_tuple(to_numpy(std::move(joined.edge_index)), ids, kept, joined.num_checked);
}

}  // namespace

void bind_join_hops(nb::module_& m) { m.def("join_hops", &joined_hops, "indptrs"_a, "indices"_a, "edge_ids"_a.none()); }

}  // namespace headrace
