// Run independent tasks on a few threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "team.hpp"

namespace headrace {

// Call body(task) for every task in [0, num_tasks); see Team.
template <class Body>
void parallel_for(int num_threads, std::size_t num_tasks, const Body& body) {
  Team team(num_threads);
  team.expect_last();
  team.run_in_order(num_tasks, body, [](std::size_t /*task*/) {});
}

// Bounds of part `part` when [0, size) is cut into `num_parts` nearly equal pieces: piece i is [bound(i), bound(i +
// 1)).
inline std::size_t part_bound(std::size_t size, std::size_t num_parts, std::size_t part) {
  return size / num_parts * part + std::min(part, size % num_parts);
}

}  // namespace headrace
