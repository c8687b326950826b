// The k smallest of a list of keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"

namespace headrace {

class SmallestSelector {
 public:
  // The keys to choose from; write all `count` of them, then call select.
  std::uint64_t* keys(std::size_t count) {
    keys_.resize(count);
    return keys_.data();
  }

  // Call emit(i) in ascending order for the `wanted` smallest keys, 0 < wanted <= count; of equal keys the first are
  // taken.
  template <class Emit>
  void select(std::size_t wanted, const Emit& emit) {
    const std::size_t count = keys_.size();
    const std::uint64_t* const keys = keys_.data();
    best_.resize(wanted <= kInsertion ? wanted : count);
    if (wanted <= kInsertion) {
      insert_all(wanted);
    } else {
      std::copy(keys, keys + count, best_.data());
      std::nth_element(best_.data(), best_.data() + wanted - 1, best_.data() + count);
    }
    const std::uint64_t threshold = best_[wanted - 1];
    const auto below = std::count_if(best_.data(), best_.data() + wanted, [=](auto key) { return key < threshold; });
    std::size_t ties = wanted - static_cast<std::size_t>(below);
    for (std::size_t i = 0; i < count; ++i) {
      if (keys[i] > threshold) continue;
      if (keys[i] == threshold) {
        if (ties == 0) continue;
        --ties;
      }
      emit(i);
      if (--wanted == 0) return;
    }
  }

 private:
  // Up to here a sorted list of the best so far wins: of d keys only about k * (1 + ln(d / k)) enter it.
  static constexpr std::size_t kInsertion = 64;

  void insert_all(std::size_t wanted) {
    const std::size_t count = keys_.size();
    std::uint64_t* const best = best_.data();
    std::copy(keys_.data(), keys_.data() + wanted, best);
    std::sort(best, best + wanted);
    for (std::size_t i = wanted; i < count; ++i) {
      const std::uint64_t key = keys_[i];
      if (key >= best[wanted - 1]) continue;
      std::size_t place = wanted - 1;
      for (; place > 0 && best[place - 1] > key; --place) best[place] = best[place - 1];
      best[place] = key;
    }
  }

  Buffer<std::uint64_t> keys_;
  Buffer<std::uint64_t> best_;
};

}  // namespace headrace
