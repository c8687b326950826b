// S3-FIFO (Yang et al., SOSP 2023): rows come into a small queue; those that are used more than once in it go on to the
// main one, the others leave, and are remembered for a while: one that comes back then goes to the main queue at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/policy.hpp"
#include "cache/slot_table.hpp"

namespace headrace {

// Ids of rows that left, the last so many.
class Ghosts {
 public:
  explicit Ghosts(std::size_t capacity) : capacity_(capacity), table_(capacity), links_(capacity) {}

  void push(std::int64_t id) {
    if (capacity_ == 0) return;
    Slot place = static_cast<Slot>(ids_.size);
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else if (ids_.size == capacity_) {
      place = ids_.front;
      forget(place);
    }
    table_.insert(id, place);
    links_.push_back(ids_, place);
  }

  // Whether it was there.
  bool take(std::int64_t id) {
    const Slot place = table_.find(id);
    if (place == kNoSlot) return false;
    forget(place);
    free_.push_back(place);
    return true;
  }

  std::size_t num_bytes() const { return table_.num_bytes() + links_.num_bytes(); }

 private:
  void forget(Slot place) {
    table_.erase(place);
    links_.erase(ids_, place);
  }

  std::size_t capacity_;
  SlotTable table_;
  SlotLinks links_;
  SlotList ids_;  // the oldest first
  std::vector<Slot> free_;
};

// The queues share the slots, and the small one gives rows up as soon as it has a tenth of them. A row that has its
// turn while a read uses it goes to the end of its queue.
class S3Fifo final : public Policy {
 public:
  S3Fifo(std::size_t capacity, const Holds& holds)
      : holds_(holds),
        small_size_(std::max<std::size_t>(capacity / 10, 1)),
        links_(capacity),
        rows_(Buffer<Row>::long_lived(capacity)),
        ghosts_(capacity - std::min(capacity, small_size_)) {}

  void touch(const Slot* slots, const std::int64_t* /*positions*/, std::size_t num_slots) override {
    for (std::size_t i = 0; i < num_slots; ++i) {
      Row& row = rows_[slots[i]];
      if (row.uses < kMostUses) ++row.uses;
      if (holds_.of(slots[i]) == 1) ++queue_of(slots[i]).num_held;
    }
  }

  Slot victim(std::int64_t /*id*/, std::int64_t /*position*/) override {
    for (;;) {
      const bool from_small = small_.has_free() && (small_.list.size >= small_size_ || !main_.has_free());
      if (!from_small && !main_.has_free()) return kNoSlot;
      const Slot slot = from_small ? leave_small() : leave_main();
      if (slot != kNoSlot) return slot;
    }
  }

  void insert(Slot slot, std::int64_t id, std::int64_t /*position*/) override {
    rows_[slot] = {id, 0, ghosts_.take(id)};
    Queue& queue = queue_of(slot);
    links_.push_back(queue.list, slot);
    ++queue.num_held;
  }

  void release(const Slot* slots, std::size_t num_slots) override {
    for (std::size_t i = 0; i < num_slots; ++i) --queue_of(slots[i]).num_held;
  }

  void remove(Slot slot) override { links_.erase(queue_of(slot).list, slot); }

  std::size_t num_bytes() const override {
    return links_.num_bytes() + rows_.size() * sizeof(Row) + ghosts_.num_bytes();
  }

 private:
  static constexpr std::uint8_t kMostUses = 3;

  struct Row {
    std::int64_t id;
    std::uint8_t uses;  // since it came into its queue
    bool in_main;
  };

  struct Queue {
    SlotList list;
    std::size_t num_held = 0;
    bool has_free() const { return num_held < list.size; }
  };

  Queue& queue_of(Slot slot) { return rows_[slot].in_main ? main_ : small_; }

  // A slot, or kNoSlot if all that nobody holds have gone on to the main queue.
  Slot leave_small() {
    while (small_.has_free()) {
      const Slot slot = small_.list.front;
      links_.erase(small_.list, slot);
      Row& row = rows_[slot];
      const bool is_held = holds_.of(slot) != 0;
      if (row.uses > 1) {
        row.uses = 0;
        row.in_main = true;
        links_.push_back(main_.list, slot);
        small_.num_held -= is_held ? 1 : 0;
        main_.num_held += is_held ? 1 : 0;
      } else if (is_held) {
        links_.push_back(small_.list, slot);
      } else {
        ghosts_.push(row.id);
        return slot;
      }
    }
    return kNoSlot;
  }

  Slot leave_main() {
    for (;;) {
      const Slot slot = main_.list.front;
      links_.erase(main_.list, slot);
      const bool is_held = holds_.of(slot) != 0;
      if (!is_held && rows_[slot].uses == 0) return slot;
      if (!is_held) --rows_[slot].uses;
      links_.push_back(main_.list, slot);
    }
  }

  const Holds& holds_;
  std::size_t small_size_;
  SlotLinks links_;
  Buffer<Row> rows_;
  Ghosts ghosts_;
  Queue small_;  // the oldest first
  Queue main_;
};

}  // namespace headrace
