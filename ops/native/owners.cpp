#include "owners.hpp"

#include <algorithm>
#include <string>

#include "buffer.hpp"
#include "errors.hpp"

namespace headrace {

void hash_owners(const std::int64_t* ids, std::size_t num_ids, std::uint32_t num_parts, std::int32_t* owners) {
  for (std::size_t i = 0; i < num_ids; ++i) {
    auto mixed = static_cast<std::uint64_t>(ids[i]);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
    mixed ^= mixed >> 31;
    owners[i] = static_cast<std::int32_t>(((mixed >> 32) * num_parts) >> 32);
  }
}

void group_by_owner(const std::int64_t* ids, const std::int32_t* owners, std::size_t num_ids, std::size_t num_parts,
                    std::size_t first, std::int64_t* grouped, std::int64_t* places, std::int64_t* counts) {
  std::fill(counts, counts + num_parts, 0);
  for (std::size_t i = 0; i < num_ids; ++i) {
    if (static_cast<std::uint32_t>(owners[i]) >= num_parts) {
      throw InputError("group_by_owner: owners[" + std::to_string(i) + "] = " + std::to_string(owners[i]) +
                       " is no part: expected 0 <= owner < num_parts = " + std::to_string(num_parts));
    }
    ++counts[owners[i]];
  }
  Buffer<std::int64_t> next(num_parts);
  std::int64_t sum = counts[first];
  next[first] = 0;
  for (std::size_t part = 0; part < num_parts; ++part) {
    if (part == first) continue;
    next[part] = sum;
    sum += counts[part];
  }
  for (std::size_t i = 0; i < num_ids; ++i) places[i] = next[static_cast<std::size_t>(owners[i])]++;
  if (ids == nullptr) return;
  for (std::size_t i = 0; i < num_ids; ++i) grouped[places[i]] = ids[i];
}

}  // namespace headrace
