// Global id -> local id for one minibatch in memory that depends on the minibatch, not on the graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/buffer.hpp"
#include "core/prefetch.hpp"

namespace headrace {

// Open addressing with linear probing, at most half full. A slot holds the lower half of an id above a running number,
// as in NodeMap: a slot of an earlier minibatch is empty.
class NodeTable {
 public:
  // wide: ids may differ in their upper halves alone.
  explicit NodeTable(bool wide) : wide_(wide) {}

  std::size_t num_bytes() const { return slots_.size() * sizeof(Slot); }

  // As NodeMap::number; numbers below `first` are of earlier minibatches.
  template <class Index>
  std::size_t number(const Index* ids, std::size_t count, Index* local, std::int64_t* n_id, std::size_t num_seen,
                     std::uint32_t first) {
    make_room(num_seen + count, n_id, num_seen, first);
    const auto prefetch = [&](std::size_t i) { prefetch_far(slots_.data() + home(ids[i])); };
    visit_prefetched(count, kFarPrefetchDistance, prefetch, [&](std::size_t i) {
      const auto id = static_cast<std::int64_t>(ids[i]);
      Slot& slot = slots_[probe(id, n_id, first)];
      if (slot.number < first) {
        slot = {static_cast<std::uint32_t>(id), first + static_cast<std::uint32_t>(num_seen)};
        n_id[num_seen++] = id;
      }
      local[i] = static_cast<Index>(slot.number - first);
    });
    return num_seen;
  }

  void clear() {
    if (slots_.size() != 0) std::memset(slots_.data(), 0, num_bytes());
  }

 private:
  struct Slot {
    std::uint32_t id;
    std::uint32_t number;
  };

  template <class Index>
  std::size_t home(Index id) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the high bits of the product mix best
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id) * kGolden >> shift_);
  }

  // The slot of `id`, or the empty one where it belongs.
  std::size_t probe(std::int64_t id, const std::int64_t* n_id, std::uint32_t first) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = home(id);
    for (; slots_[i].number >= first; i = (i + 1) & mask) {
      if (slots_[i].id == static_cast<std::uint32_t>(id) && (!wide_ || n_id[slots_[i].number - first] == id)) break;
    }
    return i;
  }

  void make_room(std::size_t num_ids, const std::int64_t* n_id, std::size_t num_seen, std::uint32_t first) {
    if (2 * num_ids <= slots_.size()) return;
    unsigned bits = 10;
    while (std::size_t{1} << bits < 2 * num_ids) ++bits;
    slots_ = Buffer<Slot>::long_lived(std::size_t{1} << bits);
    shift_ = 64 - bits;
    clear();
    for (std::size_t i = 0; i < num_seen; ++i) {
      slots_[probe(n_id[i], n_id, first)] = {static_cast<std::uint32_t>(n_id[i]),
                                             first + static_cast<std::uint32_t>(i)};
    }
  }

  bool wide_;
  unsigned shift_ = 0;
  Buffer<Slot> slots_;
};

}  // namespace headrace
