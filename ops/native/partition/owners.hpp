// Owners of nodes among several ranks, and ids put in the order of their owners.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// The owner of each id by `hash_owner`.
void hash_owners(const std::int64_t* ids, std::size_t num_ids, std::uint32_t num_parts, std::int32_t* owners);

// A stable counting sort of ids by owner, with those of part `first` in front of part 0's: grouped[num_ids] are the ids
// (left out if `ids` is null), places[i] is where id i went, counts[num_parts] how many each part has. Throws
// InputError for an owner that is no part.
void group_by_owner(const std::int64_t* ids, const std::int32_t* owners, std::size_t num_ids, std::size_t num_parts,
                    std::size_t first, std::int64_t* grouped, std::int64_t* places, std::int64_t* counts);

}  // namespace headrace
