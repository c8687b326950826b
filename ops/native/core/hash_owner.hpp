// The part of an id by a hash of it, for the CPU and for CUDA.
#pragma once

#include <cstdint>

namespace headrace {

// By the finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every part gets an equal share of the hashes.
inline std::int32_t hash_owner(std::int64_t id, std::uint32_t num_parts) {
  auto mixed = static_cast<std::uint64_t>(id);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
  mixed ^= mixed >> 31;
  return static_cast<std::int32_t>(((mixed >> 32) * num_parts) >> 32);
}

}  // namespace headrace
