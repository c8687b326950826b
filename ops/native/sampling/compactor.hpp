// Renumber nodes by first occurrence, again and again for one graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "sampling/node_map_pool.hpp"

namespace headrace {

// What `compact` does, on node maps that are kept: nothing grows, and nothing is cleared between calls. May be called
// from several threads at once.
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
