// Vertex maps for calls that may run at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "core/lent.hpp"
#include "sampling/vertex_map.hpp"

namespace headrace {

// Each call takes a map and gives it back, cleared; there are as many as calls that ever ran together. A call that
// throws drops its map, and the next one gets a new one.
class VertexMapPool {
 public:
  // The arguments are those of VertexMap.
  VertexMapPool(std::size_t num_vertices, std::uint32_t first_number, std::size_t most_slots)
      : num_vertices_(num_vertices), maps_(MakeMap{num_vertices, first_number, most_slots}) {}

  std::size_t num_vertices() const { return num_vertices_; }

  std::unique_ptr<VertexMap> take() { return maps_.take(); }
  void give_back(std::unique_ptr<VertexMap> map) { maps_.give_back(std::move(map)); }

  // Of the maps that no call uses now.
  std::size_t num_bytes() {
    std::size_t num_bytes = 0;
    maps_.for_each_kept([&](const VertexMap& map) { num_bytes += map.num_bytes(); });
    return num_bytes;
  }

 private:
  struct MakeMap {
    std::size_t num_vertices;
    std::uint32_t first_number;
    std::size_t most_slots;

    VertexMap operator()() const { return VertexMap(num_vertices, first_number, most_slots); }
  };

  std::size_t num_vertices_;
  Lent<MakeMap> maps_;
};

}  // namespace headrace
