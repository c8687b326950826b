// Under which keys the nodes of a hop have their variates: one, or where batches depend on each other two, of which the
// variates are blended (ops/random/dependency.py).
#pragma once

#include <cstdint>

#include "random/stream.hpp"

namespace headrace {

// The cosine and the sine of a part of a quarter turn, to within 3e-16.
struct Turn {
  double cosine = 1.0;
  double sine = 0.0;
};

// Of `part`, 0 <= part <= 1.
Turn quarter_turn(double part);

struct VariateKeys {
  // Implicit: most hops have one key.
  VariateKeys(std::uint64_t one) : key(one) {}  // NOLINT(google-explicit-constructor)

  // `step` of the `num_steps` steps that lead from the variates under `key` to those under `next_key`.
  VariateKeys(std::uint64_t one, std::uint64_t other, std::uint64_t step, std::uint64_t num_steps)
      : key(one),
        next_key(other),
        blends(step != 0),
        turn(quarter_turn(static_cast<double>(step) / static_cast<double>(num_steps))) {}

  std::uint64_t key;
  std::uint64_t next_key = 0;
  bool blends = false;
  Turn turn;
};

// A point on the quarter of a circle from one variate to another, as normal ones: uniform as these are.
std::uint64_t blended_variate(std::uint64_t one, std::uint64_t other, Turn turn);

inline std::uint64_t labor_variate(const VariateKeys& keys, std::uint64_t node, std::uint32_t number = 0) {
  const std::uint64_t variate = labor_variate(keys.key, node, number);
  return keys.blends ? blended_variate(variate, labor_variate(keys.next_key, node, number), keys.turn) : variate;
}

// Those of the nodes of one slot.
inline VariateKeys slot_keys(VariateKeys keys, std::uint64_t slot) {
  keys.key = slot_key(keys.key, slot);
  if (keys.blends) keys.next_key = slot_key(keys.next_key, slot);
  return keys;
}

}  // namespace headrace
