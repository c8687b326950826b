// Vertex maps for calls that may run at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "vertex_map.hpp"

namespace headrace {

// Each call takes a map and gives it back, cleared; there are as many as calls that ever ran together. A call that
// throws drops its map, and the next one gets a new one.
class VertexMapPool {
 public:
  // The arguments are those of VertexMap.
  VertexMapPool(std::size_t num_vertices, std::uint32_t first_number, std::size_t most_slots)
      : num_vertices_(num_vertices), first_number_(first_number), most_slots_(most_slots) {}

  std::size_t num_vertices() const { return num_vertices_; }

  std::unique_ptr<VertexMap> take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!maps_.empty()) {
        std::unique_ptr<VertexMap> map = std::move(maps_.back());
        maps_.pop_back();
        return map;
      }
    }
    return std::make_unique<VertexMap>(num_vertices_, first_number_, most_slots_);
  }

  void give_back(std::unique_ptr<VertexMap> map) {
    const std::lock_guard<std::mutex> lock(mutex_);
    maps_.push_back(std::move(map));
  }

  // Of the maps that no call uses now.
  std::size_t num_bytes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::size_t num_bytes = 0;
    for (const auto& map : maps_) num_bytes += map->num_bytes();
    return num_bytes;
  }

 private:
  std::size_t num_vertices_;
  std::uint32_t first_number_;
  std::size_t most_slots_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<VertexMap>> maps_;
};

}  // namespace headrace
