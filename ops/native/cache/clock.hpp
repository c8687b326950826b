// CLOCK (Corbato, 1968): a hand goes round the slots, and a row that was used since it came by gets another round. A
// row that is new has not been used yet, as in FIFO with reinsertion.
#pragma once

#include "cache/policy.hpp"

namespace headrace {

class Clock final : public Policy {
 public:
  Clock(std::size_t capacity, const Holds& holds) : holds_(holds), used_(Buffer<char>::long_lived(capacity)) {}

  void touch(const Slot* slots, const std::int64_t* /*positions*/, std::size_t num_slots) override {
    for (std::size_t i = 0; i < num_slots; ++i) used_[slots[i]] = 1;
  }

  // No slot is free then, so the hand meets rows alone.
  Slot victim(std::int64_t /*id*/, std::int64_t /*position*/) override {
    if (holds_.all()) return kNoSlot;
    for (;;) {
      const Slot slot = hand_;
      hand_ = slot + 1 == used_.size() ? 0 : slot + 1;
      if (holds_.of(slot) != 0) continue;
      if (used_[slot] == 0) return slot;
      used_[slot] = 0;
    }
  }

  void insert(Slot slot, std::int64_t /*id*/, std::int64_t /*position*/) override { used_[slot] = 0; }
  void remove(Slot /*slot*/) override {}
  std::size_t num_bytes() const override { return used_.size(); }

 private:
  const Holds& holds_;
  Buffer<char> used_;
  Slot hand_ = 0;
};

}  // namespace headrace
