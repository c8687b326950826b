// Streaming partitioning: nodes come one by one and stay where they are put.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

constexpr std::int64_t kMostParts = std::int64_t{1} << 16;

struct StreamSettings {
  std::int64_t num_parts;
  std::int64_t capacity;  // nodes that a part may hold
  std::int64_t passes;
  bool shuffle;  // visit nodes in the order of the permutation that `key` names, else by id
  std::uint64_t key;
};

// Linear deterministic greedy (Stanton and Kliot, KDD 2012): each node goes where most of its in-neighbours are,
// times the room that is left there. Of equal parts it takes the one with fewer nodes, then the first; without
// neighbours in a part that has room, the part with the fewest nodes. Later passes take each node out of its part
// and put it back in by the same rule (restreaming, Nishimura and Ugander, KDD 2013, with sizes that are always up to
// date). Edges count with their multiplicity, self-loops do not. Memory besides `owners` is of the order of num_parts.
// Throws InputError for settings by which not all nodes have a place.
template <class Index>
void stream_partition(const CscView<Index>& graph, StreamSettings settings, std::int32_t* owners);

}  // namespace headrace
