#include "sampling/compactor.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "sampling/compact.hpp"

namespace headrace {
namespace {

// Throws for the first id that is not a node.
template <class Index>
void check_nodes(const char* name, const Index* ids, std::size_t count, std::size_t num_nodes) {
  constexpr auto kMostIds = static_cast<std::size_t>(std::numeric_limits<Index>::max());  // beyond it they are negative
  const std::size_t i = first_out_of_range(ids, 0, count, std::min(num_nodes, kMostIds));
  if (i == count) return;
  throw InputError(std::string("Compactor.compact: ") + name + "[" + std::to_string(i) +
                   "] = " + std::to_string(ids[i]) + " is no node: expected 0 <= id < " + std::to_string(num_nodes));
}

}  // namespace

Compactor::Compactor(std::size_t num_nodes, std::uint32_t first_number, std::size_t most_slots)
    : maps_(num_nodes, first_number, most_slots) {}

template <class Index>
Buffer<std::int64_t> Compactor::compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                                        std::size_t num_values, Index* local) {
  const std::size_t num_nodes = maps_.num_nodes();
  check_nodes("seen", seen, num_seen, num_nodes);
  check_nodes("neighbors", values, num_values, num_nodes);
  // So many cannot all be distinct, and no more of them need be numbered to find that out.
  const std::size_t num_known = std::min(num_seen, num_nodes + 1);
  std::unique_ptr<NodeMap> map = maps_.take();
  Buffer<std::int64_t> ids(std::min(num_known + num_values, num_nodes) + 1);  // the map writes one too many
  Buffer<std::int64_t> places(num_known);
  if (map->number(seen, num_known, places.data(), ids.data(), 0) != num_seen) refuse_repeated(seen, places.data());
  const std::size_t num_ids = map->number(values, num_values, local, ids.data(), num_seen);
  if (num_ids > NodeMap::kMostLocalIds) refuse_size();
  ids.resize(num_ids);
  map->clear(num_ids);
  maps_.give_back(std::move(map));
  return ids;
}

template Buffer<std::int64_t> Compactor::compact<std::int32_t>(const std::int64_t*, std::size_t, const std::int32_t*,
                                                               std::size_t, std::int32_t*);
template Buffer<std::int64_t> Compactor::compact<std::int64_t>(const std::int64_t*, std::size_t, const std::int64_t*,
                                                               std::size_t, std::int64_t*);

}  // namespace headrace
