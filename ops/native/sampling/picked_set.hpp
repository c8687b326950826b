// Which positions of a row have been picked already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

class PickedSet {
 public:
  // Begin a row of which up to `capacity` positions will be picked, listed in `positions`.
  void begin(const std::int64_t* positions, std::size_t capacity) {
    positions_ = positions;
    short_list_ = capacity <= kLinearCheck;
    if (short_list_) return;
    bits_ = 1;
    while (std::size_t{1} << bits_ < 2 * capacity) ++bits_;
    table_.resize(std::size_t{1} << bits_);
    std::fill(table_.data(), table_.data() + table_.size(), kFree);
  }

  // False when `position` is among the `count` listed so far. Otherwise the caller lists it next.
  bool insert(std::size_t count, std::int64_t position) {
    if (short_list_) return !is_listed(count, position);
    std::int64_t& slot = table_[find(position)];
    if (slot == position) return false;
    slot = position;
    return true;
  }

 private:
  static constexpr std::size_t kLinearCheck = 32;  // up to here a scan of the picks beats hashing
  static constexpr std::int64_t kFree = -1;

  bool is_listed(std::size_t count, std::int64_t position) const {
    bool found = false;  // no early exit: the compiler makes this loop branch-free
    for (std::size_t i = 0; i < count; ++i) found |= positions_[i] == position;
    return found;
  }

  // The slot that holds the position, or the free one where it belongs.
  std::size_t find(std::int64_t position) const {
    const std::size_t mask = table_.size() - 1;
    auto slot = static_cast<std::size_t>(static_cast<std::uint64_t>(position) * 0x9E3779B97F4A7C15U >> (64 - bits_));
    while (table_[slot] != kFree && table_[slot] != position) slot = (slot + 1) & mask;
    return slot;
  }

  const std::int64_t* positions_ = nullptr;
  bool short_list_ = true;
  unsigned bits_ = 0;
  Buffer<std::int64_t> table_;
};

}  // namespace headrace
