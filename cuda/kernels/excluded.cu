// Twin of ops/native/sampling/excluded.hpp: pickers pick among what is left of a segment, its edges numbered without
// the excluded ones, and picks are unpacked. `gaps` are the positions of all excluded edges, ascending, in trees those
// of one slot after the other; of segment i those from gaps[first_gaps[i]] on, as many as `left` has less edges than
// `degrees`.

#include <cstdint>

#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// The position of edge `offset` of those that are left of the segment that begins at `start` and has these gaps.
inline std::int64_t unpacked(const std::int64_t* gaps, std::int64_t count, std::int64_t start, std::int64_t offset) {
  std::int64_t low = 0;
  while (low < count) {
    const std::int64_t middle = low + (count - low) / 2;
    if (gaps[middle] - start - middle <= offset) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return start + offset + low;
}

// Find the gaps of segments, and how many edges are left of each. With `slots_of_gaps`, ascending, a segment has those
// of its own slot alone.
__global__ void find_gaps(const std::int64_t* gaps, const std::int64_t* slots_of_gaps, std::int64_t num_gaps,
                          const std::int64_t* slots, const std::int64_t* starts, const std::int64_t* degrees,
                          std::int64_t num_segments, std::int64_t* first_gaps, std::int64_t* left) {
  for_each_item(num_segments, [&](std::int64_t i) {
    std::int64_t first = 0;
    std::int64_t count = num_gaps;
    if (slots_of_gaps != nullptr) {
      first = count_before(slots_of_gaps, num_gaps, slots[i]);
      count = count_until(slots_of_gaps + first, num_gaps - first, slots[i]);
    }
    first_gaps[i] = first + count_before(gaps + first, count, starts[i]);
    const std::int64_t behind = first + count_before(gaps + first, count, starts[i] + degrees[i]);
    left[i] = degrees[i] - (behind - first_gaps[i]);
  });
}

// Copy what is left of segments from an array with an entry for each edge: that of segment i to packed_starts[i].
template <class Value>
__global__ void pack_edges(const Value* values, const std::int64_t* gaps, const std::int64_t* first_gaps,
                           const std::int64_t* starts, const std::int64_t* degrees, const std::int64_t* left,
                           std::int64_t num_segments, const std::int64_t* packed_starts, Value* packed) {
  for_each_by_warp(num_segments, [&](std::int64_t i, int lane) {
    for (std::int64_t k = lane; k < left[i]; k += kWarp) {
      packed[packed_starts[i] + k] = values[unpacked(gaps + first_gaps[i], degrees[i] - left[i], starts[i], k)];
    }
  });
}

// Give picks their positions in the graph: those of segment i are positions[first[i]] and behind it.
__global__ void unpack_picks(const std::int64_t* gaps, const std::int64_t* first_gaps, const std::int64_t* starts,
                             const std::int64_t* degrees, const std::int64_t* left, const std::int64_t* packed_starts,
                             const std::int64_t* first, std::int64_t num_segments, std::int64_t* positions) {
  for_each_by_warp(num_segments, [&](std::int64_t i, int lane) {
    for (std::int64_t e = first[i] + lane; e < first[i + 1]; e += kWarp) {
      positions[e] = unpacked(gaps + first_gaps[i], degrees[i] - left[i], starts[i], positions[e] - packed_starts[i]);
    }
  });
}

}  // namespace headrace
