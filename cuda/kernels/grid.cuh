// How the threads of a grid share out work, whatever its size: thread after thread takes the item as far behind its
// last one as there are threads.
#pragma once

#include <cstdint>

namespace headrace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;

inline std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * static_cast<std::int64_t>(blockDim.x) +
         static_cast<std::int64_t>(threadIdx.x);
}

inline std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * static_cast<std::int64_t>(blockDim.x);
}

// Call visit(i) for every i below `count`, one thread for each.
template <class Visit>
void for_each_item(std::int64_t count, const Visit& visit) {
  for (std::int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) visit(i);
}

// Call visit(i, lane) for every i below `count`, a warp for each.
template <class Visit>
void for_each_by_warp(std::int64_t count, const Visit& visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t i = thread_of_grid() / kWarp; i < count; i += threads_of_grid() / kWarp) visit(i, lane);
}

// How many there are, where that is known on the device alone: no more than there is room for.
inline std::int64_t count_of(const std::int64_t* count, std::int64_t room) {
  return count != nullptr && *count < room ? *count : room;
}

}  // namespace headrace
