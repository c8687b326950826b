#include "partition/owners.hpp"

#include <optional>

#include "bindings/bindings.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

constexpr std::int64_t kMostParts = std::int64_t{1} << 30;

void check_parts(const char* function, std::int64_t num_parts) {
  if (num_parts < 1 || num_parts > kMostParts) {
    throw InputError(std::string(function) + ": expected num_parts to be in [1, 2**30], got " +
                     std::to_string(num_parts));
  }
}

OutArray<std::int32_t> owners_of(const InArray<std::int64_t>& ids, std::int64_t num_parts) {
  check_parts("hash_owners", num_parts);
  Buffer<std::int32_t> owners(ids.shape(0));
  {
    const nb::gil_scoped_release release;
    hash_owners(ids.data(), ids.shape(0), static_cast<std::uint32_t>(num_parts), owners.data());
  }
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
  {
    const nb::gil_scoped_release release;
    group_by_owner(data_or_null(ids), owners.data(), num_ids, static_cast<std::size_t>(num_parts),
                   static_cast<std::size_t>(first), values.data(), places.data(), counts.data());
  }
  return nb::make_tuple(to_numpy(std::move(values)), to_numpy(std::move(places)), to_numpy(std::move(counts)));
}

}  // namespace

void bind_owners(nb::module_& m) {
  m.def("hash_owners", &owners_of, "ids"_a.noconvert(), "num_parts"_a);
  m.def("group_by_owner", &grouped, "ids"_a.noconvert().none(), "owners"_a.noconvert(), "num_parts"_a, "first"_a);
}

}  // namespace headrace
