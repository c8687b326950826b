#include "sampling/compact.hpp"

#include <algorithm>
#include <string>

#include "core/errors.hpp"
#include "sampling/node_map.hpp"
#include "sampling/node_table.hpp"

namespace headrace {
namespace {

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

void refuse_repeated(const std::int64_t* seen, const std::int64_t* places) {
  std::size_t i = 0;
  while (places[i] == static_cast<std::int64_t>(i)) ++i;
  throw InputError("compact: seen[" + std::to_string(places[i]) + "] and seen[" + std::to_string(i) + "] are both " +
                   std::to_string(seen[i]) + "; expected unique ids, as unique_and_inverse returns them");
}

void refuse_size() {
  throw InputError("compact: more than " + std::to_string(NodeMap::kMostLocalIds) +
                   " ids, more than a local id can number");
}

template Buffer<std::int64_t> compact<std::int32_t>(const std::int64_t*, std::size_t, const std::int32_t*, std::size_t,
                                                    std::int32_t*);
template Buffer<std::int64_t> compact<std::int64_t>(const std::int64_t*, std::size_t, const std::int64_t*, std::size_t,
                                                    std::int64_t*);

}  // namespace headrace
