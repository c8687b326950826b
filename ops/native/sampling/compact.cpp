#include "sampling/compact.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "sampling/node_table.hpp"

namespace headrace {
namespace {

// Refuse `seen`, in which an id comes twice; places[i] = where seen[i] was numbered first.
[[noreturn]] void refuse_repeated(const std::int64_t* seen, const std::int64_t* places) {
  std::size_t i = 0;
  while (places[i] == static_cast<std::int64_t>(i)) ++i;
  throw InputError("compact: seen[" + std::to_string(places[i]) + "] and seen[" + std::to_string(i) + "] are both " +
                   std::to_string(seen[i]) + "; expected unique ids, as unique_and_inverse returns them");
}

[[noreturn]] void refuse_size() {
  throw InputError("compact: more than " + std::to_string(NodeMap::kMostLocalIds) +
                   " ids, more than a local id can number");
}

constexpr std::size_t kValuesPerStep = std::size_t{1} << 16;  // the list of ids grows by no more than so many at a time

// Number `values` behind the ids that the table knows.
template <class Index>
void number(NodeTable& table, const Index* values, std::size_t num_values, Index* local, Buffer<std::int64_t>& ids) {
  for (std::size_t first = 0; first < num_values; first += kValuesPerStep) {
    const std::size_t count = std::min(kValuesPerStep, num_values - first);
    ids.ensure_spare(count + 1);
    ids.resize(table.number(values + first, count, local + first, ids.data(), ids.size(), 1));
    if (ids.size() > NodeMap::kMostLocalIds) refuse_size();
  }
}

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

template <class Index>
Buffer<std::int64_t> compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                             std::size_t num_values, Index* local) {
  NodeTable table(true);
  Buffer<std::int64_t> ids;
  Buffer<std::int64_t> places(num_seen);
  number(table, seen, num_seen, places.data(), ids);
  if (ids.size() != num_seen) refuse_repeated(seen, places.data());
  number(table, values, num_values, local, ids);
  return ids;
}

template Buffer<std::int64_t> compact<std::int32_t>(const std::int64_t*, std::size_t, const std::int32_t*, std::size_t,
                                                    std::int32_t*);
template Buffer<std::int64_t> compact<std::int64_t>(const std::int64_t*, std::size_t, const std::int64_t*, std::size_t,
                                                    std::int64_t*);

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
