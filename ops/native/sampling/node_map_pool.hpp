// Node maps for calls that may run at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/pool.hpp"
#include "sampling/node_map.hpp"

namespace headrace {

// Each call takes a map and gives it back, cleared; there are as many as calls that ever ran together. A call that
// throws drops its map, and the next one gets a new one.
class NodeMapPool {
 public:
  // The arguments are those of NodeMap.
  NodeMapPool(std::size_t num_nodes, std::uint32_t first_number, std::size_t most_slots)
      : num_nodes_(num_nodes), maps_(MakeMap{num_nodes, first_number, most_slots}) {}

  std::size_t num_nodes() const { return num_nodes_; }

  std::unique_ptr<NodeMap> take() { return maps_.take(); }
  void give_back(std::unique_ptr<NodeMap> map) { maps_.give_back(std::move(map)); }

  // Of the maps that no call uses now.
  std::size_t num_bytes() {
    std::size_t num_bytes = 0;
    maps_.for_each_kept([&](const NodeMap& map) { num_bytes += map.num_bytes(); });
    return num_bytes;
  }

 private:
  struct MakeMap {
    std::size_t num_nodes;
    std::uint32_t first_number;
    std::size_t most_slots;

    NodeMap operator()() const { return NodeMap(num_nodes, first_number, most_slots); }
  };

  std::size_t num_nodes_;
  Pool<MakeMap> maps_;
};

}  // namespace headrace
