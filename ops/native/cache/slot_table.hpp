// The slot of a row: memory that depends on the slots, not on the rows that there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cache/slots.hpp"
#include "core/buffer.hpp"
#include "core/prefetch.hpp"

namespace headrace {

// Open addressing with linear probing, at most half full. An entry has the lower half of an id: a row that is not there
// mostly shows without a look at the ids.
class SlotTable {
 public:
  explicit SlotTable(std::size_t capacity) : ids_(Buffer<std::int64_t>::long_lived(capacity)) {
    while (std::size_t{1} << bits_ < 2 * capacity) ++bits_;
    entries_ = Buffer<Entry>::long_lived(std::size_t{1} << bits_);
    std::fill(entries_.data(), entries_.data() + entries_.size(), Entry{0, kNoSlot});
  }

  void prefetch(std::int64_t id) const { prefetch_read(entries_.data() + home(id)); }

  // The row in a slot that has one.
  std::int64_t id_in(Slot slot) const { return ids_[slot]; }

  // The slot of a row, or kNoSlot.
  Slot find(std::int64_t id) const {
    for (std::size_t i = home(id); entries_[i].slot != kNoSlot; i = after(i)) {
      if (entries_[i].low == static_cast<std::uint32_t>(id) && ids_[entries_[i].slot] == id) return entries_[i].slot;
    }
    return kNoSlot;
  }

  // Of a row that has no slot, and a slot without a row.
  void insert(std::int64_t id, Slot slot) {
    std::size_t i = home(id);
    while (entries_[i].slot != kNoSlot) i = after(i);
    entries_[i] = {static_cast<std::uint32_t>(id), slot};
    ids_[slot] = id;
  }

  void erase(Slot slot) {
    std::size_t hole = home(ids_[slot]);
    while (entries_[hole].slot != slot) hole = after(hole);
    // Those behind move up, unless that would put them before the place where they are looked for first.
    for (std::size_t i = after(hole); entries_[i].slot != kNoSlot; i = after(i)) {
      const std::size_t mask = entries_.size() - 1;
      const std::size_t from_home = (i - home(ids_[entries_[i].slot])) & mask;
      if (from_home < ((i - hole) & mask)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole].slot = kNoSlot;
  }

  std::size_t num_bytes() const { return entries_.size() * sizeof(Entry) + ids_.size() * sizeof(std::int64_t); }

 private:
  struct Entry {
    std::uint32_t low;
    Slot slot;
  };

  std::size_t home(std::int64_t id) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id) * kGolden >> (64 - bits_));
  }
  std::size_t after(std::size_t i) const { return (i + 1) & (entries_.size() - 1); }

  unsigned bits_ = 3;
  Buffer<Entry> entries_;
  Buffer<std::int64_t> ids_;
};

}  // namespace headrace
