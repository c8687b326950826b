// Twin of ops/native/sampling/pick_uniform.hpp: picks go to positions[first[i]] and behind it.

#include <cstdint>

#include "grid.cuh"
#include "random/bounded.hpp"
#include "random/stream.hpp"

namespace headrace {

__global__ void pick_all(const std::int64_t* starts, const std::int64_t* first, std::int64_t num_dst,
                         std::int64_t* positions) {
  for_each_by_warp(num_dst, [&](std::int64_t i, int lane) {
    const std::int64_t degree = first[i + 1] - first[i];
    for (std::int64_t k = lane; k < degree; k += kWarp) positions[first[i] + k] = starts[i] + k;
  });
}

// `kLanes` threads look through what has been picked for a row: one for small fanouts, a warp for large ones.
template <int kLanes>
struct Picks {
  int lane;

  bool has(const std::int64_t* picks, std::int64_t count, std::int64_t position) const {
    int found = 0;
    for (std::int64_t k = lane; k < count; k += kLanes) found |= picks[k] == position ? 1 : 0;
    if constexpr (kLanes > 1) found = __any_sync(kAllLanes, found);
    return found != 0;
  }

  void put(std::int64_t* picks, std::int64_t count, std::int64_t position) const {
    if (lane == 0) picks[count] = position;
    if constexpr (kLanes > 1) __syncwarp();
  }
};

// Robert Floyd's algorithm. All lanes draw the same words.
template <int kLanes>
__global__ void pick_uniform(std::uint64_t key, const std::int64_t* frontier, const std::int64_t* slots,
                             const std::int64_t* starts, const std::int64_t* degrees, std::int64_t num_dst,
                             std::int64_t fanout, const std::int64_t* first, std::int64_t* positions) {
  const Picks<kLanes> picks{static_cast<int>(threadIdx.x) % kLanes};
  for (std::int64_t i = thread_of_grid() / kLanes; i < num_dst; i += threads_of_grid() / kLanes) {
    std::int64_t* const out = positions + first[i];
    const std::int64_t degree = degrees[i];
    if (degree <= fanout) {
      for (std::int64_t k = picks.lane; k < degree; k += kLanes) out[k] = starts[i] + k;
      continue;
    }
    const std::uint64_t key_here = slots == nullptr ? key : slot_key(key, static_cast<std::uint64_t>(slots[i]));
    WordStream stream(key_here, static_cast<std::uint64_t>(frontier[i]));
    for (std::int64_t picked = 0; picked < fanout; ++picked) {
      const std::int64_t last = degree - fanout + picked;
      std::int64_t position =
          starts[i] + static_cast<std::int64_t>(bounded(stream, static_cast<std::uint64_t>(last) + 1));
      // `last` itself cannot have been picked before: all earlier draws were below it.
      if (picks.has(out, picked, position)) position = starts[i] + last;
      picks.put(out, picked, position);
    }
  }
}

__global__ void pick_uniform_replacement(std::uint64_t key, const std::int64_t* frontier, const std::int64_t* slots,
                                         const std::int64_t* starts, const std::int64_t* degrees, std::int64_t num_dst,
                                         const std::int64_t* first, std::int64_t* positions) {
  for_each_item(num_dst, [&](std::int64_t i) {
    const std::uint64_t key_here = slots == nullptr ? key : slot_key(key, static_cast<std::uint64_t>(slots[i]));
    WordStream stream(key_here, static_cast<std::uint64_t>(frontier[i]));
    for (std::int64_t e = first[i]; e < first[i + 1]; ++e) {
      positions[e] = starts[i] + static_cast<std::int64_t>(bounded(stream, static_cast<std::uint64_t>(degrees[i])));
    }
  });
}

}  // namespace headrace
