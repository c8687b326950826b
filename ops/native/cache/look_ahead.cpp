#include "cache/look_ahead.hpp"

#include <algorithm>

namespace headrace {

LookAhead::LookAhead(std::size_t capacity, std::size_t num_rows, const Holds& holds, const SlotTable& table,
                     const Buffer<std::uint8_t>& levels)
    : holds_(holds),
      table_(table),
      links_(capacity),
      rows_(Buffer<Row>::long_lived(capacity)),
      levels_(levels),
      counts_(levels_.size() != 0 ? 0 : capacity, levels_.size() != 0 ? 0 : num_rows) {
  std::fill(rows_.data(), rows_.data() + capacity, Row{kNoUse, 0, false});
}

// Repeats in a read count as well.
void LookAhead::count(const std::int64_t* ids, std::size_t num_ids) {
  if (levels_.size() != 0) return;
  for (std::size_t i = 0; i < num_ids; ++i) counts_.add(ids[i]);
}

std::size_t LookAhead::level_of(std::int64_t id) const {
  return levels_.size() != 0 ? levels_[static_cast<std::size_t>(id)] : level_of_count(counts_.of(id));
}

// Of a row of the read that looks up now, behind this read.
Use LookAhead::next_use(std::int64_t id, std::int64_t position) const {
  if (current_ == kNever) return reads_.last(id);
  return reads_.after({current_, static_cast<std::uint32_t>(position)});
}

// Of a slot that is in no list.
void LookAhead::use(Slot slot, std::int64_t position) {
  Use& next = rows_[slot].next;
  // A read that was expected before this one may still be to come.
  if (current_ == kNever || (reads_.awaits(next.read) && next.read < current_)) return;
  next = next_use(table_.id_in(slot), position);
}

SlotList& LookAhead::list_of(const Row& row) {
  return row.next.read == kNever ? unknown_[row.level] : reads_.at(row.next.read).slots;
}

// The lower, the sooner it goes: first levels, then reads, the farthest first.
std::size_t LookAhead::rank_of(const Row& row) const {
  return row.next.read == kNever ? row.level : kNumLevels + (reads_.end() - 1 - row.next.read);
}

void LookAhead::link(Slot slot) {
  Row& row = rows_[slot];
  row.level = static_cast<std::uint8_t>(level_of(table_.id_in(slot)));
  row.is_listed = true;
  links_.push_back(list_of(row), slot);
  worst_ = std::min(worst_, rank_of(row));
}

void LookAhead::unlink(Slot slot) {
  Row& row = rows_[slot];
  if (!row.is_listed) return;
  links_.erase(list_of(row), slot);
  row.is_listed = false;
}

void LookAhead::begin(const std::int64_t* ids, std::size_t num_ids) {
  current_ = reads_.find(ids, num_ids);
  if (current_ == kNever) return count(ids, num_ids);
  reads_.finish(current_);
}

void LookAhead::touch(const Slot* slots, const std::int64_t* positions, std::size_t num_slots) {
  for (std::size_t i = 0; i < num_slots; ++i) {
    const Slot slot = slots[i];
    const bool was_listed = rows_[slot].is_listed;
    unlink(slot);
    use(slot, positions[i]);
    if (was_listed) link(slot);
  }
  worst_ = 0;
}

Slot LookAhead::victim(std::int64_t id, std::int64_t position) {
  const Row row{next_use(id, position), static_cast<std::uint8_t>(level_of(id)), false};
  const std::size_t own_rank = rank_of(row);
  for (; worst_ < own_rank; ++worst_) {
    const SlotList& list = worst_ < kNumLevels
                               ? unknown_[worst_]
                               : reads_.at(reads_.end() - 1 - static_cast<std::uint32_t>(worst_ - kNumLevels)).slots;
    if (list.size == 0) continue;
    const Slot slot = list.front;
    unlink(slot);
    return slot;
  }
  return kNoSlot;
}

void LookAhead::insert(Slot slot, std::int64_t id, std::int64_t position) {
  rows_[slot].next = next_use(id, position);
  link(slot);
}

// The one who fills it in would else wait for a use that is over.
void LookAhead::bypass(Slot slot, std::int64_t position) { use(slot, position); }

void LookAhead::end(const Slot* held, std::size_t num_held) {
  if (current_ != kNever) drop_finished();  // which looks for next uses of what is in a list
  for (std::size_t i = 0; i < num_held; ++i) unlink(held[i]);
  current_ = kNever;
}

// Reads at the front that are over, or were passed over.
void LookAhead::drop_finished() {
  while (!reads_.empty()) {
    const std::uint32_t number = reads_.first();
    ExpectedReads::Read& read = reads_.at(number);
    if (!read.is_over) {
      if (current_ - number < ExpectedReads::kMostPassedOver || current_ < number) return;
      reads_.finish(number);
    }
    while (read.slots.size != 0) {
      const Slot slot = read.slots.front;
      unlink(slot);
      rows_[slot].next = reads_.after(rows_[slot].next);
      link(slot);
    }
    reads_.pop();
  }
}

void LookAhead::release(const Slot* slots, std::size_t num_slots) {
  for (std::size_t i = 0; i < num_slots; ++i) {
    Use& next = rows_[slots[i]].next;
    if (next.read != kNever && !reads_.awaits(next.read)) {
      // One that is dropped was passed over meanwhile: of the uses behind it the last one is known.
      next = reads_.has(next.read) ? reads_.after(next) : reads_.last(table_.id_in(slots[i]));
    }
    link(slots[i]);
  }
}

void LookAhead::remove(Slot slot) { unlink(slot); }

void LookAhead::expect(const std::int64_t* ids, std::size_t num_ids) {
  if (num_ids >= kNever) throw InputError("expect: expected fewer than 2**32 - 1 ids");
  if (reads_.is_full()) expect_nothing();
  count(ids, num_ids);
  reads_.push(ids, num_ids, [&](std::int64_t id, Use use) {
    const Slot slot = table_.find(id);
    if (slot == kNoSlot) return;
    Row& row = rows_[slot];
    if (reads_.awaits(row.next.read)) return;
    const bool was_listed = row.is_listed;
    unlink(slot);
    row.next = use;
    if (was_listed) link(slot);
  });
}

void LookAhead::expect_nothing() {
  for (std::uint32_t number = reads_.first(); number != reads_.end(); ++number) {
    SlotList& list = reads_.at(number).slots;
    while (list.size != 0) {
      const Slot slot = list.front;
      unlink(slot);
      rows_[slot].next = kNoUse;
      link(slot);
    }
  }
  // What reads hold now is in no list, and its next use is forgotten as well.
  for (std::size_t slot = 0; slot < rows_.size(); ++slot) {
    if (!rows_[slot].is_listed) rows_[slot].next = kNoUse;
  }
  reads_.clear();
}

std::size_t LookAhead::num_bytes() const {
  return links_.num_bytes() + rows_.size() * sizeof(Row) + levels_.size() + counts_.num_bytes() + reads_.num_bytes();
}

}  // namespace headrace
