// Renumber ids by first occurrence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "sampling/node_map_pool.hpp"

namespace headrace {

// ids = `seen` followed by the ids of `values` that are not in it, by first occurrence; local[i] = place of values[i]
// in ids. Throws InputError when `seen` holds an id twice, and for more than 2^31 - 1 ids.
template <class Index>
Buffer<std::int64_t> compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                             std::size_t num_values, Index* local);

// What `compact` does, again and again for the nodes of one graph, on node maps that are kept: nothing grows, and
// nothing is cleared between calls. May be called from several threads at once.
class Compactor {
 public:
  Compactor(std::size_t num_nodes, std::uint32_t first_number, std::size_t most_slots);

  // As compact; throws InputError for ids that are no nodes, too.
  template <class Index>
  Buffer<std::int64_t> compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                               std::size_t num_values, Index* local);

  // Bytes of the maps that no call uses now.
  std::size_t scratch_bytes() { return maps_.num_bytes(); }

 private:
  NodeMapPool maps_;
};

}  // namespace headrace
