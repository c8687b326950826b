// Named random streams over Philox. Published contract, see ops/random/rng.py: change nothing here without a new major
// version.
#pragma once

#include <cstdint>

#include "random/philox.hpp"

namespace headrace {

inline std::uint32_t low_word(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
inline std::uint32_t high_word(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

// The 64-bit key of the stream that belongs to one purpose in one layer of one batch.
inline std::uint64_t stream_key(std::uint64_t seed, std::uint32_t epoch, std::uint64_t batch, std::uint16_t layer,
                                std::uint16_t purpose) {
  const std::uint32_t use = static_cast<std::uint32_t>(layer) | static_cast<std::uint32_t>(purpose) << 16;
  const PhiloxCounter words =
      philox4x32({epoch, low_word(batch), high_word(batch), use}, {low_word(seed), high_word(seed)});
  return static_cast<std::uint64_t>(words[1]) << 32 | words[0];
}

// Block `block` (four words) of the stream of the 64-bit id `id` under `key`.
inline PhiloxCounter stream_block(std::uint64_t key, std::uint64_t id, std::uint32_t block) {
  return philox4x32({low_word(id), high_word(id), block, 0}, {low_word(key), high_word(key)});
}

// The words of one id's stream, one after the other.
class WordStream {
 public:
  WordStream(std::uint64_t key, std::uint64_t id) : key_(key), id_(id) {}

  std::uint32_t next() {
    if (lane_ == 4) {
      words_ = stream_block(key_, id_, block_++);
      lane_ = 0;
    }
    return words_[lane_++];
  }

 private:
  std::uint64_t key_;
  std::uint64_t id_;
  PhiloxCounter words_{};
  std::uint32_t block_ = 0;
  unsigned lane_ = 4;
};

// The key under which the nodes of one slot have their streams: those of different trees draw on their own.
inline std::uint64_t slot_key(std::uint64_t key, std::uint64_t slot) {
  constexpr std::uint32_t kSlots = 0xFFFFFFFF;  // where the counters of streams have 0
  const PhiloxCounter words = philox4x32({low_word(slot), high_word(slot), 0, kSlots}, {low_word(key), high_word(key)});
  return static_cast<std::uint64_t>(words[1]) << 32 | words[0];
}

// Rounds of what is computed for every in-edge of a frontier. Seven are the fewest that pass all tests of BigCrush
// (Salmon et al., SC 2011).
constexpr int kVariateRounds = 7;

// The variate r_t of LABOR: one 64-bit integer per source node t, shared by every destination of the hop. Where a
// destination has several edges from t, those behind the first one have their `number` from 1 on, and variates of it.
inline std::uint64_t labor_variate(std::uint64_t key, std::uint64_t node, std::uint32_t number = 0) {
  const PhiloxCounter words =
      philox4x32<kVariateRounds>({low_word(node), high_word(node), number, 0}, {low_word(key), high_word(key)});
  return static_cast<std::uint64_t>(words[0]) << 32 | words[1];
}

}  // namespace headrace
