// Threads that work on a row together: a warp, or for long rows a block.
#pragma once

#include <cstdint>

#include "grid.cuh"

namespace headrace {

// Threads that a multiprocessor is to have room for, by their registers, where each waits for memory again and again.
constexpr int kThreadsAtOnce = 1024;

// The same where threads wait less, and hold sums and draws, or several sums that they go on with.
constexpr int kThreadsOfSums = 768;
constexpr int kThreadsOfScales = 512;

struct WarpGroup {
  static constexpr int kThreads = kWarp;
  static constexpr int kPerBlock = 4;  // of so many threads is a block
  static constexpr int kBlockSize = kThreads * kPerBlock;
  static constexpr int kBlocksAtOnce = kThreadsAtOnce / kBlockSize;
  static constexpr int kBlocksOfSums = kThreadsOfSums / kBlockSize;
  static constexpr int kBlocksOfScales = kThreadsOfScales / kBlockSize;

  int rank = static_cast<int>(threadIdx.x) % kWarp;
  int in_block = static_cast<int>(threadIdx.x) / kWarp;

  void sync() const { __syncwarp(); }

  // How many threads before this one have the flag, and how many of all.
  int count_before(bool flag, int* total) const {
    const unsigned ballot = __ballot_sync(kAllLanes, flag ? 1 : 0);
    *total = __popc(ballot);
    return __popc(ballot & ((1U << rank) - 1));
  }
};

struct BlockGroup {
  static constexpr int kThreads = WarpGroup::kBlockSize;
  static constexpr int kPerBlock = 1;
  static constexpr int kWarps = kThreads / kWarp;

  int rank = static_cast<int>(threadIdx.x);
  int in_block = 0;

  void sync() const { __syncthreads(); }

  int count_before(bool flag, int* total) const {
    __shared__ int counts[kWarps];
    const unsigned ballot = __ballot_sync(kAllLanes, flag ? 1 : 0);
    if (rank % kWarp == 0) counts[rank / kWarp] = __popc(ballot);
    __syncthreads();
    int before = __popc(ballot & ((1U << rank % kWarp) - 1));
    *total = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      if (warp < rank / kWarp) before += counts[warp];
      *total += counts[warp];
    }
    __syncthreads();  // before the next call writes
    return before;
  }
};

// Call visit(i) for every i below `count`, a group for each.
template <class Group, class Visit>
void for_each_by_group(std::int64_t count, const Group& group, const Visit& visit) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * Group::kPerBlock + group.in_block;
  for (std::int64_t i = first; i < count; i += static_cast<std::int64_t>(gridDim.x) * Group::kPerBlock) visit(i);
}

// Rows of more edges are for a block.
constexpr std::int64_t kLongRow = 2048;

// Call visit(group, i) for every i below `count`: a warp for each row of up to kLongRow edges, and then, for longer
// ones among those of its warps, the whole block. So hubs take no launch of their own.
template <class Length, class Visit>
void for_each_by_length(std::int64_t count, const Length& length, const Visit& visit) {
  const WarpGroup warp;
  const BlockGroup block;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * WarpGroup::kPerBlock; first < count;
       first += static_cast<std::int64_t>(gridDim.x) * WarpGroup::kPerBlock) {
    const std::int64_t own = first + warp.in_block;
    if (own < count && length(own) <= kLongRow) visit(warp, own);
    for (std::int64_t i = first; i < count && i < first + WarpGroup::kPerBlock; ++i) {
      if (length(i) <= kLongRow) continue;
      block.sync();  // warps are done with what they share
      visit(block, i);
      block.sync();
    }
  }
}

// The length of row i where rows are in `degrees`, or begin at `offsets`.
inline auto length_in(const std::int64_t* degrees) {
  return [=](std::int64_t i) { return degrees[i]; };
}
inline auto length_between(const std::int64_t* offsets) {
  return [=](std::int64_t i) { return offsets[i + 1] - offsets[i]; };
}

}  // namespace headrace
