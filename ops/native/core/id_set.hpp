// A set of ids that answers "is it there, and where?" fast when most answers are no.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

// Open addressing with linear probing, at most half full, behind a filter of 16 to 32 bits per id: what the filter
// does not know, about 15 of 16 strangers, costs one bit that stays in cache. No memory per node of the graph.
class IdSet {
 public:
  explicit IdSet(std::size_t num_ids) {
    while (std::size_t{1} << table_bits_ < 2 * num_ids) ++table_bits_;
    slots_.resize(std::size_t{1} << table_bits_);
    std::fill(slots_.data(), slots_.data() + slots_.size(), Slot{0, kNone});
    filter_.resize((std::size_t{1} << (table_bits_ + kFilterBits)) / 64);
    std::fill(filter_.data(), filter_.data() + filter_.size(), 0);
  }

  static constexpr std::int64_t kNone = -1;

  // Put `id` in with its place, unless it is there; returns the place it has now.
  std::int64_t insert(std::int64_t id, std::int64_t place) {
    const std::uint64_t hash = hash_of(id);
    const std::uint64_t bit = hash >> (64 - table_bits_ - kFilterBits);
    filter_[bit / 64] |= std::uint64_t{1} << bit % 64;
    Slot& slot = slots_[probe(id, hash)];
    if (slot.place == kNone) slot = {id, place};
    return slot.place;
  }

  // The place of `id`, or kNone.
  std::int64_t find(std::int64_t id) const {
    const std::uint64_t hash = hash_of(id);
    const std::uint64_t bit = hash >> (64 - table_bits_ - kFilterBits);
    if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return kNone;
    return slots_[probe(id, hash)].place;
  }

 private:
  static constexpr unsigned kFilterBits = 3;

  struct Slot {
    std::int64_t id;
    std::int64_t place;
  };

  static std::uint64_t hash_of(std::int64_t id) { return static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15U; }

  // The slot that holds `id`, or the free one where it belongs.
  std::size_t probe(std::int64_t id, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    auto slot = static_cast<std::size_t>(hash >> (64 - table_bits_));
    while (slots_[slot].place != kNone && slots_[slot].id != id) slot = (slot + 1) & mask;
    return slot;
  }

  unsigned table_bits_ = 3;
  Buffer<Slot> slots_;
  Buffer<std::uint64_t> filter_;
};

}  // namespace headrace
