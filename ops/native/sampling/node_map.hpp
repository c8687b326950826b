// Global id -> local id for one minibatch, without clearing anything between minibatches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/memory.hpp"
#include "core/prefetch.hpp"
#include "sampling/node_table.hpp"

namespace headrace {

// Each node gets a running number that no earlier minibatch has used: `first_` + local id. What is below `first_` is
// forgotten. So a new minibatch costs one addition instead of the O(num_nodes) fill that FastSample (arXiv 2311.17847)
// implies by M = -1. The numbers are kept in one 32-bit slot per node, or, for graphs of many nodes, in a table.
class NodeMap {
 public:
  // More nodes than this in one minibatch cannot be numbered.
  static constexpr std::size_t kMostLocalIds = (std::size_t{1} << 31) - 1;
  // Up to here one slot per node, 512 MB, is as fast as a table of the minibatch's nodes or faster
  // (bench/RESULTS.md).
  static constexpr std::size_t kMostSlots = std::size_t{1} << 27;

  // Numbers below `first` count as used; what is out of range starts at 1.
  explicit NodeMap(std::size_t num_nodes, std::uint32_t first = 1, std::size_t most_slots = kMostSlots,
                   Lifetime lifetime = Lifetime::kLong)
      : num_slots_(num_nodes <= most_slots ? num_nodes : 0),
        first_(first == 0 || first > kLastFirst ? 1 : first),
        table_(num_nodes > std::uint64_t{1} << 32) {
    if (num_nodes > most_slots) return;
    slots_.reset(static_cast<std::uint32_t*>(take_block(num_slots_ * sizeof(std::uint32_t), lifetime)));
    forget_all();
  }

  std::size_t num_bytes() const { return num_slots_ * sizeof(std::uint32_t) + table_.num_bytes(); }

  // Forget every node; `count` of them had local ids.
  void clear(std::size_t count) {
    if (const std::uint64_t next = first_ + std::uint64_t{count}; next <= kLastFirst) {
      first_ = static_cast<std::uint32_t>(next);
    } else {
      forget_all();
      first_ = 1;
    }
  }

  // local[i] = the local id of ids[i], a new one if it has none. New ids go behind the `num_seen` of n_id by first
  // occurrence; n_id has room for one more than there can be. Returns how many there are now.
  template <class Index>
  std::size_t number(const Index* ids, std::size_t count, Index* local, std::int64_t* n_id, std::size_t num_seen) {
    if (slots_ == nullptr) return table_.number(ids, count, local, n_id, num_seen, first_);
    std::uint32_t* const slots = slots_.get();
    const std::uint32_t first = first_;
    const auto step = [&](std::size_t i) {
      const auto id = static_cast<std::size_t>(ids[i]);
      const auto fresh = static_cast<std::uint32_t>(num_seen);
      // An empty slot wraps around to more than any local id. No branch: whether a node is new is a coin toss.
      const std::uint32_t place = std::min(slots[id] - first, fresh);
      slots[id] = first + place;
      local[i] = static_cast<Index>(place);
      n_id[num_seen] = static_cast<std::int64_t>(id);
      num_seen += place == fresh ? 1 : 0;
    };
    for (std::size_t chunk = 0; chunk < count; chunk += kIdsInChunk) {
      const std::size_t end = std::min(count, chunk + kIdsInChunk);
      for (std::size_t i = chunk; i < end; ++i) prefetch_far(slots + ids[i]);
      for (std::size_t i = chunk; i < end; ++i) step(i);
    }
    return num_seen;
  }

 private:
  struct Free {
    void operator()(void* memory) const { give_block(memory); }
  };

  // Ids whose slots are prefetched one right after the other, before any of them is numbered. Where a line takes long
  // to come, prefetches that go on meanwhile keep slots waiting that are as near as the second level cache already.
  static constexpr std::size_t kIdsInChunk = 2048;

  // From here on a minibatch of kMostLocalIds nodes still fits into 32 bits.
  static constexpr std::uint32_t kLastFirst = std::uint32_t{1} << 31;

  void forget_all() {
    if (slots_ != nullptr) std::memset(slots_.get(), 0, num_slots_ * sizeof(std::uint32_t));
    table_.clear();
  }

  std::size_t num_slots_;
  std::uint32_t first_;
  std::unique_ptr<std::uint32_t[], Free> slots_;
  NodeTable table_;
};

}  // namespace headrace
