// The least recently used row makes room.
#pragma once

#include "cache/policy.hpp"

namespace headrace {

class Lru final : public Policy {
 public:
  Lru(std::size_t capacity, const Holds& holds) : holds_(holds), links_(capacity) {}

  void touch(const Slot* slots, const std::int64_t* /*positions*/, std::size_t num_slots) override {
    for (std::size_t i = 0; i < num_slots; ++i) links_.move_to_back(used_, slots[i]);
  }

  Slot victim(std::int64_t /*id*/, std::int64_t /*position*/) override {
    if (holds_.all()) return kNoSlot;
    // What a read is using counts as used now, so that none is looked at twice.
    while (holds_.of(used_.front) != 0) links_.move_to_back(used_, used_.front);
    const Slot slot = used_.front;
    links_.erase(used_, slot);
    return slot;
  }

  void insert(Slot slot, std::int64_t /*id*/, std::int64_t /*position*/) override { links_.push_back(used_, slot); }
  void remove(Slot slot) override { links_.erase(used_, slot); }
  std::size_t num_bytes() const override { return links_.num_bytes(); }

 private:
  const Holds& holds_;
  SlotLinks links_;
  SlotList used_;  // the least recently used first
};

}  // namespace headrace
