// SIEVE (Zhang et al., NSDI 2024): a hand goes from the oldest row to the newest, and the first one that was not used
// since it came by makes room. Rows stay in their order, new ones come in behind: what is not used again soon leaves
// soon.
#pragma once

#include "cache/policy.hpp"

namespace headrace {

class Sieve final : public Policy {
 public:
  Sieve(std::size_t capacity, const Holds& holds)
      : holds_(holds), links_(capacity), used_(Buffer<char>::long_lived(capacity)) {}

  void touch(const Slot* slots, const std::int64_t* /*positions*/, std::size_t num_slots) override {
    for (std::size_t i = 0; i < num_slots; ++i) used_[slots[i]] = 1;
  }

  Slot victim(std::int64_t /*id*/, std::int64_t /*position*/) override {
    if (holds_.all()) return kNoSlot;
    for (;;) {
      const Slot slot = hand_ == kNoSlot ? rows_.front : hand_;
      hand_ = links_.next(slot);
      if (holds_.of(slot) != 0) continue;
      if (used_[slot] == 0) {
        links_.erase(rows_, slot);
        return slot;
      }
      used_[slot] = 0;
    }
  }

  void insert(Slot slot, std::int64_t /*id*/, std::int64_t /*position*/) override {
    links_.push_back(rows_, slot);
    used_[slot] = 0;
  }

  void remove(Slot slot) override {
    if (hand_ == slot) hand_ = links_.next(slot);
    links_.erase(rows_, slot);
  }

  std::size_t num_bytes() const override { return links_.num_bytes() + used_.size(); }

 private:
  const Holds& holds_;
  SlotLinks links_;
  SlotList rows_;  // the oldest first
  Buffer<char> used_;
  Slot hand_ = kNoSlot;  // what it looks at next; kNoSlot for the oldest
};

}  // namespace headrace
