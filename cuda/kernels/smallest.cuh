// The smallest keys of a row, which a group of threads finds by counting how many are in which of 256 parts of a range,
// then of the part that the last of them is in. Keys are made anew in every sweep: that takes less time than to keep
// them.
#pragma once

#include <cstdint>

#include "group.cuh"

namespace headrace {

constexpr int kBins = 256;
constexpr int kWidestBin = 56;  // so that 256 of them are all keys

// What a group writes together, one for each group of a block.
struct Bins {
  unsigned counts[kBins];
  int found;             // the bin that the last of the wanted keys is in, or kBins
  std::uint64_t before;  // keys in the bins before it
};

// Of the keys those below `key`, and of those equal to it the first `ties`.
struct Limit {
  static constexpr std::uint64_t kAllTies = ~std::uint64_t{0};

  std::uint64_t key;
  std::uint64_t ties;
};

// The first warp looks which bin the `wanted`-th key is in.
template <class Group>
void find_bin(const Group& group, std::uint64_t wanted, Bins& bins) {
  constexpr int kPerLane = kBins / kWarp;
  if (group.rank < kWarp) {
    std::uint64_t own = 0;
    for (int k = 0; k < kPerLane; ++k) own += bins.counts[group.rank * kPerLane + k];
    std::uint64_t up_to = own;
    for (unsigned by = 1; by < kWarp; by *= 2) {
      const std::uint64_t others = __shfl_up_sync(kAllLanes, up_to, by);
      if (group.rank >= static_cast<int>(by)) up_to += others;
    }
    std::uint64_t before = up_to - own;
    if (before < wanted && wanted <= up_to) {
      int bin = group.rank * kPerLane;
      while (before + bins.counts[bin] < wanted) before += bins.counts[bin++];
      bins.found = bin;
      bins.before = before;
    }
    if (group.rank == kWarp - 1 && up_to < wanted) {
      bins.found = kBins;
      bins.before = up_to;
    }
  }
  group.sync();
}

// The limit of the `wanted` smallest of key(0), ..., key(count - 1), 0 < wanted <= count. The first bins are
// 2^`bin_bits` wide, best so that a few times `wanted` keys are in all of them.
template <class Group, class Key>
Limit find_limit(const Group& group, std::int64_t count, std::uint64_t wanted, int bin_bits, Bins& bins,
                 const Key& key) {
  std::uint64_t low = 0;
  for (;;) {
    for (int bin = group.rank; bin < kBins; bin += Group::kThreads) bins.counts[bin] = 0;
    group.sync();
    for (std::int64_t i = group.rank; i < count; i += Group::kThreads) {
      const std::uint64_t value = key(i);
      if (value < low) continue;
      const std::uint64_t bin = (value - low) >> bin_bits;
      if (bin < kBins) atomicAdd(bins.counts + bin, 1U);
    }
    group.sync();
    find_bin(group, wanted, bins);
    const int found = bins.found;
    const std::uint64_t in_bin = found < kBins ? bins.counts[found] : 0;
    wanted -= bins.before;
    group.sync();  // before the next sweep writes
    low += static_cast<std::uint64_t>(found) << bin_bits;
    if (found == kBins) {
      bin_bits = bin_bits < kWidestBin ? bin_bits + 1 : kWidestBin;
    } else if (in_bin == wanted) {
      return {low + (std::uint64_t{1} << bin_bits) - 1, Limit::kAllTies};
    } else if (bin_bits == 0) {
      return {low, wanted};
    } else {
      bin_bits = bin_bits > 8 ? bin_bits - 8 : 0;
    }
  }
}

// Call emit(i, place) for the keys up to the limit: place 0, 1, ... with i ascending. Returns how many there are.
template <class Group, class Key, class Emit>
std::int64_t emit_up_to(const Group& group, std::int64_t count, Limit limit, const Key& key, const Emit& emit) {
  std::int64_t placed = 0;
  std::uint64_t ties = 0;
  for (std::int64_t first = 0; first < count; first += Group::kThreads) {
    const std::int64_t i = first + group.rank;
    const std::uint64_t value = i < count ? key(i) : 0;
    bool takes = i < count && value <= limit.key;
    if (limit.ties != Limit::kAllTies) {
      int num_ties = 0;
      const bool ties_here = takes && value == limit.key;
      const int before = group.count_before(ties_here, &num_ties);
      if (ties_here && ties + static_cast<std::uint64_t>(before) >= limit.ties) takes = false;
      ties += static_cast<std::uint64_t>(num_ties);
    }
    int num_taken = 0;
    const int before = group.count_before(takes, &num_taken);
    if (takes) emit(i, placed + before);
    placed += num_taken;
  }
  return placed;
}

}  // namespace headrace
