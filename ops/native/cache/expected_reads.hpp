// Reads to come, and for each use of a row the next one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "cache/slots.hpp"
#include "core/buffer.hpp"

namespace headrace {

// A use of a row: position `index` of a read, the number of which says how far off it is.
struct Use {
  std::uint32_t read;
  std::uint32_t index;
};
constexpr std::uint32_t kNever = UINT32_MAX;
constexpr Use kNoUse{kNever, 0};

// Memory is in proportion to the ids of the reads that are expected.
class ExpectedReads {
 public:
  struct Read {
    Buffer<std::int64_t> ids;
    Buffer<Use> next;  // of each id, or kNoUse: also where it comes again in its read
    SlotList slots;    // those whose rows are used next by this read
    bool is_over = false;
  };

  // Reads that were passed over by so many later ones are no longer expected: threads do not read in order, but nearly.
  static constexpr std::uint32_t kMostPassedOver = 64;

  bool empty() const { return reads_.empty(); }
  std::size_t num_outstanding() const { return num_outstanding_; }
  std::uint32_t first() const { return first_; }
  std::uint32_t end() const { return first_ + static_cast<std::uint32_t>(reads_.size()); }
  bool has(std::uint32_t read) const { return read != kNever && read >= first_; }
  bool awaits(std::uint32_t read) const { return has(read) && !at(read).is_over; }
  Read& at(std::uint32_t read) { return reads_[read - first_]; }
  const Read& at(std::uint32_t read) const { return reads_[read - first_]; }

  // Whether numbers are used up: then all has to be forgotten.
  bool is_full() const { return end() >= kNever - 1; }

  // The read gets the number end() - 1. Calls visit(id, use) for each of its distinct ids.
  template <class Visit>
  void push(const std::int64_t* ids, std::size_t num_ids, const Visit& visit) {
    make_room(num_ids);
    reads_.emplace_back();
    ++num_outstanding_;
    const std::uint32_t number = end() - 1;
    Read& read = reads_.back();
    read.ids.resize(num_ids);
    read.next.resize(num_ids);
    num_positions_ += num_ids;
    for (std::size_t i = 0; i < num_ids; ++i) {
      read.ids[i] = ids[i];
      read.next[i] = kNoUse;
      Latest& latest = latest_[place(ids[i])];
      if (has(latest.use.read)) {
        if (latest.use.read == number) continue;  // it comes twice
        at(latest.use.read).next[latest.use.index] = {number, static_cast<std::uint32_t>(i)};
      } else if (latest.use.read == kNever) {
        ++num_latest_;
      }
      latest = {ids[i], {number, static_cast<std::uint32_t>(i)}};
      visit(ids[i], latest.use);
    }
  }

  // The oldest outstanding read of exactly these ids, or kNever.
  std::uint32_t find(const std::int64_t* ids, std::size_t num_ids) const {
    for (std::uint32_t number = first_; number != end(); ++number) {
      const Read& read = at(number);
      if (!read.is_over && read.ids.size() == num_ids && std::equal(ids, ids + num_ids, read.ids.data())) return number;
    }
    return kNever;
  }

  void finish(std::uint32_t read) {
    at(read).is_over = true;
    --num_outstanding_;
  }

  // The first outstanding use behind this one.
  Use after(Use use) const {
    while (has(use.read)) {
      use = at(use.read).next[use.index];
      if (use.read == kNever || !at(use.read).is_over) return use;
    }
    return kNoUse;
  }

  // The last use of a row that is known, if it is outstanding.
  Use last(std::int64_t id) const {
    if (latest_.size() == 0) return kNoUse;
    const Use use = latest_[place(id)].use;
    return awaits(use.read) ? use : kNoUse;
  }

  // Drop the first read, which is over.
  void pop() {
    num_positions_ -= reads_.front().ids.size();
    reads_.pop_front();
    ++first_;
  }

  void clear() {
    reads_.clear();
    num_outstanding_ = num_positions_ = num_latest_ = 0;
    first_ = 0;
    latest_ = Buffer<Latest>();
  }

  std::size_t num_bytes() const {
    return num_positions_ * (sizeof(std::int64_t) + sizeof(Use)) + latest_.size() * sizeof(Latest);
  }

 private:
  struct Latest {
    std::int64_t id;
    Use use;  // of a read that is dropped: the row is not used by any that is there
  };

  // Where a row stands in `latest_`, or would.
  std::size_t place(std::int64_t id) const {
    const std::size_t mask = latest_.size() - 1;
    auto i = static_cast<std::size_t>(static_cast<std::uint64_t>(id) * 0x9E3779B97F4A7C15U >> (64 - bits_));
    while (latest_[i].use.read != kNever && latest_[i].id != id) i = (i + 1) & mask;
    return i;
  }

  void make_room(std::size_t num_ids) {
    if (2 * (num_latest_ + num_ids) <= latest_.size()) return;
    const Buffer<Latest> old = std::move(latest_);
    std::size_t num_live = 0;
    for (std::size_t i = 0; i < old.size(); ++i) num_live += has(old[i].use.read) ? 1 : 0;
    bits_ = 6;
    while (std::size_t{1} << bits_ < 3 * (num_live + num_ids)) ++bits_;
    latest_ = Buffer<Latest>(std::size_t{1} << bits_);
    std::fill(latest_.data(), latest_.data() + latest_.size(), Latest{0, kNoUse});
    for (std::size_t i = 0; i < old.size(); ++i) {
      if (has(old[i].use.read)) latest_[place(old[i].id)] = old[i];
    }
    num_latest_ = num_live;
  }

  std::deque<Read> reads_;
  std::uint32_t first_ = 0;
  std::size_t num_outstanding_ = 0;
  std::size_t num_positions_ = 0;
  std::size_t num_latest_ = 0;
  unsigned bits_ = 6;
  Buffer<Latest> latest_;
};

}  // namespace headrace
