// What a hop samples for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Its elements are nodes. In disjoint trees an element is a node in a slot, the number of its tree, and the same node
// in another slot is another element; where edges have times it may have a bound, and later edges do not count, and a
// lower bound, and earlier edges do not. A frontier without slots and bounds pays for neither.
struct Frontier {
  const std::int64_t* nodes = nullptr;  // [size]
  std::size_t size = 0;
  const std::int64_t* slots = nullptr;   // [size] or null
  const std::int64_t* bounds = nullptr;  // [size] or null
  const std::int64_t* lows = nullptr;    // [size] or null; only with bounds
};

}  // namespace headrace
