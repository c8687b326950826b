// Global id -> local id for one minibatch, without clearing anything between minibatches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "memory.hpp"
#include "prefetch.hpp"

namespace headrace {

// One 64-bit slot per vertex holds (epoch << 32 | local id); a slot of an older epoch is empty. So a new minibatch
// costs one increment instead of the O(num_nodes) fill that FastSample (arXiv 2311.17847) implies by M = -1.
class VertexMap {
 public:
  explicit VertexMap(std::size_t num_vertices, std::uint32_t last_epoch = 0)
      : num_vertices_(num_vertices),
        epoch_(last_epoch),
        slots_(static_cast<std::uint64_t*>(take_block(num_vertices * sizeof(std::uint64_t), Lifetime::kLong))) {
    std::memset(slots_.get(), 0, num_vertices * sizeof(std::uint64_t));
  }

  // Forget every vertex.
  void clear() {
    if (epoch_ == std::numeric_limits<std::uint32_t>::max()) {
      std::memset(slots_.get(), 0, num_vertices_ * sizeof(std::uint64_t));
      epoch_ = 0;
    }
    ++epoch_;
  }

  void prefetch(std::size_t vertex) const { prefetch_write(slots_.get() + vertex); }

  // Give `vertex` the local id `fresh` unless it has one. Returns the local id it has now.
  std::uint32_t find_or_insert(std::size_t vertex, std::uint32_t fresh) {
    std::uint64_t& slot = slots_[vertex];
    if (slot >> 32 == epoch_) return static_cast<std::uint32_t>(slot);
    slot = static_cast<std::uint64_t>(epoch_) << 32 | fresh;
    return fresh;
  }

 private:
  struct Free {
    void operator()(void* memory) const { give_block(memory); }
  };

  std::size_t num_vertices_;
  std::uint32_t epoch_;
  std::unique_ptr<std::uint64_t[], Free> slots_;
};

}  // namespace headrace
