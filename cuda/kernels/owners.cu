// Twin of ops/native/partition/owners.cpp: owners by a hash. Ids are grouped by torch's sort, see cuda/owners.py.

#include <cstdint>

#include "core/hash_owner.hpp"
#include "grid.cuh"

namespace headrace {

__global__ void hash_owners(const std::int64_t* ids, std::int64_t num_ids, std::int64_t num_parts,
                            std::int32_t* owners) {
  for_each_item(num_ids,
                [&](std::int64_t i) { owners[i] = hash_owner(ids[i], static_cast<std::uint32_t>(num_parts)); });
}

}  // namespace headrace
