// A uniformly random order of items, listed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// Write the numbers 0, ..., count - 1 in the order that `key` names: each of all count! orders comes with the same
// probability. i = count - 1, ..., 1 changes places with a bounded integer of at most i (bounded.hpp), of consecutive
// words of the stream of id 0 (Durstenfeld, "Algorithm 235: random permutation", CACM 1964). count is below 2^32.
void fisher_yates(std::size_t count, std::uint64_t key, std::int64_t* out);

}  // namespace headrace
