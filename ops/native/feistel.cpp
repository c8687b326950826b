#include "feistel.hpp"

#include "stream.hpp"

namespace headrace {
namespace {

// Feistel network on `bits`-bit words whose halves may differ by one bit; Philox is the round function. Ten rounds keep
// even two-bit words within sampling error of uniform over permutations (tests/ops/test_shuffle.py).
class FeistelNetwork {
 public:
  FeistelNetwork(std::uint64_t num_items, std::uint64_t key) : key_(key) {
    unsigned bits = 2;
    while ((num_items - 1) >> bits != 0) ++bits;
    right_bits_ = bits / 2;
    left_bits_ = bits - right_bits_;
  }

  std::uint64_t operator()(std::uint64_t value) const {
    unsigned left_bits = left_bits_;
    unsigned right_bits = right_bits_;
    std::uint64_t left = value >> right_bits;
    std::uint64_t right = value & mask(right_bits);
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = (left ^ stream_block(key_, right, round)[0]) & mask(left_bits);
      left = right;
      right = mixed;
      const unsigned swapped = left_bits;
      left_bits = right_bits;
      right_bits = swapped;
    }
    return left << right_bits | right;
  }

 private:
  static constexpr std::uint32_t kRounds = 10;
  static_assert(kRounds % 2 == 0, "an even number of rounds gives the two halves their own widths back");

  static std::uint64_t mask(unsigned bits) { return (std::uint64_t{1} << bits) - 1; }

  std::uint64_t key_;
  unsigned left_bits_;
  unsigned right_bits_;
};

}  // namespace

void shuffled_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                    std::int64_t* out) {
  if (start == stop) return;
  const FeistelNetwork network(num_items, key);
  for (std::uint64_t position = start; position < stop; ++position) {
    // Cycle walking: the network permutes fewer than 2 * num_items words (4 words at least), so the walk from a valid
    // word soon meets the next valid one, and the walks together are a permutation of the valid words.
    std::uint64_t item = position;
    do item = network(item);
    while (item >= num_items);
    *out++ = static_cast<std::int64_t>(item);
  }
}

}  // namespace headrace
