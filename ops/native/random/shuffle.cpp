#include "random/shuffle.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/buffer.hpp"
#include "random/bounded.hpp"
#include "random/stream.hpp"

namespace headrace {
namespace {

// Write the numbers 0, ..., count - 1 in the order that `key` names: each of all count! orders comes with the same
// probability. i = count - 1, ..., 1 changes places with a bounded integer of at most i (bounded.hpp), of consecutive
// words of the stream of id 0 (Durstenfeld, "Algorithm 235: random permutation", CACM 1964).
void fisher_yates(std::size_t count, std::uint64_t key, std::int64_t* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::int64_t>(i);
  WordStream words(key, 0);
  for (std::size_t i = count; i-- > 1;) std::swap(out[i], out[bounded(words, i + 1)]);
}

constexpr int kFeistelRounds = 10;

// Columns are the smallest even number whose square holds all items, rows then as few as will do.
struct Grid {
  explicit Grid(std::uint64_t num_items) {
    auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(num_items)));
    while (root * root < num_items) ++root;
    while (root > 1 && (root - 1) * (root - 1) >= num_items) --root;
    columns = root + root % 2;
    const std::uint64_t least = (num_items + columns - 1) / columns;
    rows = least + least % 2;
  }

  std::uint64_t rows;
  std::uint64_t columns;
};

// floor(F * size / 2^64) of what a round makes of the other coordinate.
std::uint64_t addend(std::uint64_t key, std::uint32_t round, std::uint64_t other, std::uint64_t size) {
  const PhiloxCounter words = stream_block(key, other, round);
  return (words[0] * size + (words[1] * size >> 32)) >> 32;
}

std::uint64_t permute(std::uint64_t key, const Grid& grid, std::uint64_t value) {
  std::uint64_t row = value / grid.columns;
  std::uint64_t column = value % grid.columns;
  for (std::uint32_t round = 0; round < kFeistelRounds; round += 2) {
    row += addend(key, round, column, grid.rows);
    if (row >= grid.rows) row -= grid.rows;
    column += addend(key, round + 1, row, grid.columns);
    if (column >= grid.columns) column -= grid.columns;
  }
  return row * grid.columns + column;
}

}  // namespace

void feistel_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                   std::int64_t* out) {
  if (start == stop) return;
  const Grid grid(num_items);
  for (std::uint64_t position = start; position < stop; ++position) {
    // Cycle walking (Black and Rogaway, CT-RSA 2002): the walk from an item soon meets another one, and the walks
    // together are a permutation of the items.
    std::uint64_t value = permute(key, grid, position);
    while (value >= num_items) value = permute(key, grid, value);
    *out++ = static_cast<std::int64_t>(value);
  }
}

void shuffled_range(std::uint64_t num_items, std::uint64_t start, std::uint64_t stop, std::uint64_t key,
                    std::int64_t* out) {
  if (start == stop) return;
  if (num_items > kMostListedItems) return feistel_range(num_items, start, stop, key, out);
  const auto count = static_cast<std::size_t>(num_items);
  if (stop - start == num_items) return fisher_yates(count, key, out);
  Buffer<std::int64_t> order(count);
  fisher_yates(count, key, order.data());
  std::copy(order.data() + start, order.data() + stop, out);
}

}  // namespace headrace
