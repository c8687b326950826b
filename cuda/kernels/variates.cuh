// Twin of ops/native/random/variate_keys.hpp: the variates of LABOR, of one key or blended of two.
#pragma once

#include <cstdint>

#include "random/normal.hpp"
#include "random/stream.hpp"

namespace headrace {

struct VariateKeys {
  std::uint64_t key;
  std::uint64_t next_key;
  bool blends;
  double cosine;
  double sine;
};

inline std::uint64_t labor_variate(const VariateKeys& keys, std::uint64_t node, std::uint32_t number) {
  const std::uint64_t one = labor_variate(keys.key, node, number);
  if (!keys.blends) return one;
  const std::uint64_t other = labor_variate(keys.next_key, node, number);
  return normal_variate(keys.cosine * normal_quantile(unit_interval(one)) +
                        keys.sine * normal_quantile(unit_interval(other)));
}

// Those of the nodes of one slot.
inline VariateKeys slot_keys(VariateKeys keys, std::uint64_t slot) {
  keys.key = slot_key(keys.key, slot);
  if (keys.blends) keys.next_key = slot_key(keys.next_key, slot);
  return keys;
}

}  // namespace headrace
