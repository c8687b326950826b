#include "cache/cache_index.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/clock.hpp"
#include "cache/fixed.hpp"
#include "cache/look_ahead.hpp"
#include "cache/lru.hpp"
#include "cache/s3_fifo.hpp"
#include "cache/sieve.hpp"
#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "core/prefetch.hpp"

namespace headrace {
namespace {

std::unique_ptr<Policy> make_policy(CachePolicy policy, std::size_t capacity, std::size_t num_rows, const Holds& holds,
                                    const SlotTable& table, const Buffer<std::uint8_t>& levels) {
  switch (policy) {
    case CachePolicy::kLru:
      return std::make_unique<Lru>(capacity, holds);
    case CachePolicy::kClock:
      return std::make_unique<Clock>(capacity, holds);
    case CachePolicy::kS3Fifo:
      return std::make_unique<S3Fifo>(capacity, holds);
    case CachePolicy::kSieve:
      return std::make_unique<Sieve>(capacity, holds);
    case CachePolicy::kLookAhead:
      return std::make_unique<LookAhead>(capacity, num_rows, holds, table, levels);
    default:
      return std::make_unique<Fixed>();
  }
}

// The missing rows of a read, each once, by the position where they come first.
class Missing {
 public:
  explicit Missing(std::size_t most) {
    while (std::size_t{1} << bits_ < 2 * most) ++bits_;
    entries_.resize(std::size_t{1} << bits_);
    std::fill(entries_.data(), entries_.data() + entries_.size(), kNone);
  }

  // The position where a row came before, or `position`.
  std::int64_t first(const std::int64_t* ids, std::int64_t position) {
    const std::int64_t id = ids[position];
    auto i = static_cast<std::size_t>(static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15U >> (64 - bits_));
    for (; entries_[i] != kNone; i = (i + 1) & (entries_.size() - 1)) {
      if (ids[entries_[i]] == id) return entries_[i];
    }
    return entries_[i] = position;
  }

 private:
  static constexpr std::int64_t kNone = -1;

  unsigned bits_ = 3;
  Buffer<std::int64_t> entries_;
};

// Another thread was perhaps changing it when this process was forked: it must not even be destroyed.
void leave_behind(std::unique_ptr<Policy>& policy) { static_cast<void>(policy.release()); }

}  // namespace

CacheIndex::CacheIndex(CachePolicy policy, std::size_t capacity, std::size_t num_rows, const std::int64_t* fixed,
                       Buffer<std::uint8_t>&& levels)
    : num_rows_(num_rows),
      kind_(policy),
      levels_(std::move(levels)),
      table_(capacity),
      holds_(capacity),
      slots_(Buffer<SlotState>::long_lived(capacity)) {
  begin_empty();
  if (policy != CachePolicy::kStatic) return;
  check("static cache", fixed, capacity);
  for (std::size_t slot = 0; slot < capacity; ++slot) {
    if (table_.find(fixed[slot]) != kNoSlot) {
      throw InputError("expected distinct ids of a static cache, got " + std::to_string(fixed[slot]) + " twice");
    }
    table_.insert(fixed[slot], static_cast<Slot>(slot));
  }
}

CacheIndex::~CacheIndex() {
  if (forks_ != num_forks()) leave_behind(policy_);
}

std::unique_lock<std::mutex> CacheIndex::enter() {
  std::unique_lock<std::mutex> lock(mutex_.get());
  if (forks_ != num_forks()) begin_anew();
  return lock;
}

// All but the table.
void CacheIndex::begin_empty() {
  std::fill(slots_.data(), slots_.data() + slots_.size(), SlotState{0, 0, State::kEmpty, false});
  if (kind_ != CachePolicy::kStatic) {
    free_.clear();
    free_.reserve(slots_.size());
    for (std::size_t slot = slots_.size(); slot-- > 0;) free_.push_back(static_cast<Slot>(slot));
  }
  policy_ = make_policy(kind_, slots_.size(), num_rows_, holds_, table_, levels_);
  forks_ = num_forks();
}

// The rows of a static cache stay those of their slots.
void CacheIndex::begin_anew() {
  leave_behind(policy_);
  holds_ = Holds(slots_.size());
  if (kind_ != CachePolicy::kStatic) table_ = SlotTable(slots_.size());
  counts_ = {};
  begin_empty();
}

void CacheIndex::check(const char* what, const std::int64_t* ids, std::size_t num_ids) const {
  const std::size_t bad = first_out_of_range(ids, 0, num_ids, num_rows_);
  if (bad == num_ids) return;
  throw InputError(std::string(what) + ": ids[" + std::to_string(bad) + "] = " + std::to_string(ids[bad]) +
                   " has no row: expected 0 <= id < num_rows = " + std::to_string(num_rows_) +
                   "; the feature may be shorter than the graph");
}

void CacheIndex::hold(Slot slot, CacheLookup& lookup) {
  holds_.add(slot);
  slots_[slot].read = read_;
  lookup.held.push_back(slot);
}

CacheLookup CacheIndex::look_up(const std::int64_t* ids, std::size_t num_ids) {
  if (num_ids >= UINT32_MAX) throw InputError("expected a read of fewer than 2**32 - 1 ids; read in parts");
  check("read", ids, num_ids);
  CacheLookup lookup;
  lookup.num_ids = num_ids;
  lookup.hit_slots.ensure_spare(num_ids);
  lookup.hit_positions.ensure_spare(num_ids);
  lookup.held.ensure_spare(num_ids);
  Buffer<std::int64_t> missing;
  const std::unique_lock<std::mutex> lock = enter();
  lookup.forks = forks_;
  ++read_;
  policy_->begin(ids, num_ids);
  find(ids, num_ids, lookup, missing);
  admit(ids, missing, lookup);
  policy_->end(lookup.held.data(), lookup.held.size());
  return lookup;
}

void CacheIndex::find(const std::int64_t* ids, std::size_t num_ids, CacheLookup& lookup,
                      Buffer<std::int64_t>& missing) {
  Buffer<std::int64_t> first_positions;
  const auto prefetch = [&](std::size_t i) { table_.prefetch(ids[i]); };
  visit_prefetched(num_ids, kPrefetchDistance, prefetch, [&](std::size_t i) {
    const Slot slot = table_.find(ids[i]);
    if (slot == kNoSlot || slots_[slot].state != State::kReady || slots_[slot].is_outdated) {
      missing.push_back(static_cast<std::int64_t>(i));
      return;
    }
    lookup.hit_slots.push_back(slot);
    lookup.hit_positions.push_back(static_cast<std::int64_t>(i));
    if (slots_[slot].read == read_) return;  // it comes again
    hold(slot, lookup);
    first_positions.push_back(static_cast<std::int64_t>(i));
  });
  policy_->touch(lookup.held.data(), first_positions.data(), lookup.held.size());
}

void CacheIndex::admit(const std::int64_t* ids, const Buffer<std::int64_t>& missing, CacheLookup& lookup) {
  if (missing.size() == 0) return;
  Missing seen(missing.size());
  Buffer<Slot> slot_of_miss;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    const std::int64_t position = missing[i];
    const std::int64_t first = seen.first(ids, position);
    if (first != position) {
      lookup.repeated_positions.push_back(first);
      lookup.repeat_positions.push_back(position);
      continue;
    }
    const Slot slot = slot_for(ids[position], position, slot_of_miss, lookup);
    if (slot != kNoSlot) {
      if (slots_[slot].read != read_) hold(slot, lookup);
      slots_[slot].state = State::kFilling;
      slots_[slot].miss = static_cast<std::uint32_t>(slot_of_miss.size());
    }
    slot_of_miss.push_back(slot);
    lookup.miss_ids.push_back(ids[position]);
    lookup.miss_positions.push_back(position);
  }
  for (std::size_t i = 0; i < slot_of_miss.size(); ++i) {
    if (slot_of_miss[i] == kNoSlot) continue;
    lookup.fill_slots.push_back(slot_of_miss[i]);
    lookup.fill_positions.push_back(lookup.miss_positions[i]);
  }
}

// The slot of a missing row, or kNoSlot if it bypasses the cache.
Slot CacheIndex::slot_for(std::int64_t id, std::int64_t position, Buffer<Slot>& slot_of_miss, CacheLookup& lookup) {
  if (const Slot own = table_.find(id); own != kNoSlot) {
    if (slots_[own].state == State::kEmpty) return own;  // it is one of a static cache
    policy_->bypass(own, position);                      // another read is filling it in, or was when it got outdated
    return kNoSlot;
  }
  Slot slot;
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    slot = policy_->victim(id, position);
    if (slot == kNoSlot) return kNoSlot;
    if (slots_[slot].state == State::kFilling) {
      slot_of_miss[slots_[slot].miss] = kNoSlot;  // a miss of this read, which bypasses the cache after all
    } else {
      ++lookup.num_evicted;
    }
    table_.erase(slot);
  }
  table_.insert(id, slot);
  policy_->insert(slot, id, position);
  return slot;
}

void CacheIndex::finish(const CacheLookup& lookup, bool filled) {
  if (lookup.forks != num_forks()) return;
  const std::unique_lock<std::mutex> lock = enter();
  for (std::size_t i = 0; i < lookup.fill_slots.size(); ++i) {
    SlotState& slot = slots_[static_cast<std::size_t>(lookup.fill_slots[i])];
    slot.state = State::kReady;
    slot.is_outdated |= !filled;
  }
  Buffer<Slot> released;
  for (std::size_t i = 0; i < lookup.held.size(); ++i) {
    if (holds_.drop(lookup.held[i])) released.push_back(lookup.held[i]);
  }
  policy_->release(released.data(), released.size());
  for (std::size_t i = 0; i < released.size(); ++i) {
    if (slots_[released[i]].is_outdated) empty(released[i]);
  }
  counts_.evictions += lookup.num_evicted;
  if (!filled) return;
  counts_.misses += lookup.miss_ids.size();
  counts_.hits += lookup.num_ids - lookup.miss_ids.size();
  counts_.bypasses += lookup.miss_ids.size() - lookup.fill_slots.size();
}

// Of a slot that nobody holds. One of a static cache stays its row's.
void CacheIndex::empty(Slot slot) {
  slots_[slot].state = State::kEmpty;
  slots_[slot].is_outdated = false;
  if (kind_ == CachePolicy::kStatic) return;
  policy_->remove(slot);
  table_.erase(slot);
  free_.push_back(slot);
}

void CacheIndex::invalidate(const std::int64_t* ids, std::size_t num_ids) {
  check("update", ids, num_ids);
  const std::unique_lock<std::mutex> lock = enter();
  for (std::size_t i = 0; i < num_ids; ++i) {
    const Slot slot = table_.find(ids[i]);
    if (slot != kNoSlot) make_worthless(slot);
  }
}

void CacheIndex::invalidate_all() {
  const std::unique_lock<std::mutex> lock = enter();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) make_worthless(static_cast<Slot>(slot));
}

void CacheIndex::make_worthless(Slot slot) {
  if (slots_[slot].state == State::kEmpty) return;
  ++counts_.invalidations;
  if (holds_.of(slot) == 0) {
    empty(slot);
  } else {
    slots_[slot].is_outdated = true;
  }
}

void CacheIndex::expect(const std::int64_t* ids, std::size_t num_ids) {
  check("expect", ids, num_ids);
  const std::unique_lock<std::mutex> lock = enter();
  policy_->expect(ids, num_ids);
}

void CacheIndex::expect_nothing() {
  const std::unique_lock<std::mutex> lock = enter();
  policy_->expect_nothing();
}

CacheCounts CacheIndex::counts() {
  const std::unique_lock<std::mutex> lock = enter();
  return counts_;
}

std::size_t CacheIndex::num_expected() {
  const std::unique_lock<std::mutex> lock = enter();
  return policy_->num_expected();
}

std::size_t CacheIndex::num_bytes() {
  const std::unique_lock<std::mutex> lock = enter();
  return table_.num_bytes() + slots_.size() * (sizeof(SlotState) + 2 * sizeof(Slot)) + policy_->num_bytes();
}

Buffer<std::int64_t> CacheIndex::ids_in_slots() {
  const std::unique_lock<std::mutex> lock = enter();
  Buffer<std::int64_t> ids(slots_.size());
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    const bool is_ready = slots_[slot].state == State::kReady && !slots_[slot].is_outdated;
    ids[slot] = is_ready ? table_.id_in(static_cast<Slot>(slot)) : -1;
  }
  return ids;
}

}  // namespace headrace
