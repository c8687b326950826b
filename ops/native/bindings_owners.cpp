#include "bindings.hpp"
#include "owners.hpp"

namespace headrace {
namespace {

using nb::literals::operator""_a;

constexpr std::int64_t kMostParts = std::int64_t{1} << 30;

void check_parts(const char* function, std::int64_t num_parts) {
  if (num_parts < 1 || num_parts > kMostParts) {
    throw InputError(std::string(function) + ": num_parts must be in [1, 2**30], got " + std::to_string(num_parts));
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

nb::tuple grouped(const InArray<std::int32_t>& owners, std::int64_t num_parts) {
  check_parts("group_by_owner", num_parts);
  Buffer<std::int64_t> order(owners.shape(0));
  Buffer<std::int64_t> counts(static_cast<std::size_t>(num_parts));
  {
    const nb::gil_scoped_release release;
    group_by_owner(owners.data(), owners.shape(0), static_cast<std::size_t>(num_parts), order.data(), counts.data());
  }
  return nb::make_tuple(to_numpy(std::move(order)), to_numpy(std::move(counts)));
}

}  // namespace

void bind_owners(nb::module_& m) {
  m.def("hash_owners", &owners_of, "ids"_a.noconvert(), "num_parts"_a);
  m.def("group_by_owner", &grouped, "owners"_a.noconvert(), "num_parts"_a);
}

}  // namespace headrace
