// Slots of a cache: what is in each, and lists of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

using Slot = std::uint32_t;
constexpr Slot kNoSlot = UINT32_MAX;

// Which reads use a slot. While one does it is held: its row is not replaced.
class Holds {
 public:
  explicit Holds(std::size_t capacity) : holds_(Buffer<std::uint32_t>::long_lived(capacity)) {
    for (std::size_t slot = 0; slot < capacity; ++slot) holds_[slot] = 0;
  }

  std::uint32_t of(Slot slot) const { return holds_[slot]; }
  bool all() const { return num_held_ == holds_.size(); }
  std::size_t num_held() const { return num_held_; }

  void add(Slot slot) { num_held_ += holds_[slot]++ == 0 ? 1 : 0; }
  // Whether that was the last.
  bool drop(Slot slot) {
    const bool last = --holds_[slot] == 0;
    num_held_ -= last ? 1 : 0;
    return last;
  }

 private:
  Buffer<std::uint32_t> holds_;
  std::size_t num_held_ = 0;
};

struct SlotList {
  Slot front = kNoSlot;
  Slot back = kNoSlot;
  std::size_t size = 0;
};

// Neighbours in lists, of which a slot is in one at most.
class SlotLinks {
 public:
  explicit SlotLinks(std::size_t capacity) : links_(Buffer<Link>::long_lived(capacity)) {}

  Slot next(Slot slot) const { return links_[slot].next; }
  std::size_t num_bytes() const { return links_.size() * sizeof(Link); }

  void push_back(SlotList& list, Slot slot) {
    links_[slot] = {list.back, kNoSlot};
    (list.back == kNoSlot ? list.front : links_[list.back].next) = slot;
    list.back = slot;
    ++list.size;
  }

  void erase(SlotList& list, Slot slot) {
    const auto [before, after] = links_[slot];
    (before == kNoSlot ? list.front : links_[before].next) = after;
    (after == kNoSlot ? list.back : links_[after].previous) = before;
    --list.size;
  }

  void move_to_back(SlotList& list, Slot slot) {
    erase(list, slot);
    push_back(list, slot);
  }

 private:
  struct Link {
    Slot previous;
    Slot next;
  };

  Buffer<Link> links_;
};

}  // namespace headrace
