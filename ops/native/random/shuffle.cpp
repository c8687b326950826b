#include "random/shuffle.hpp"

#include <algorithm>
#include <cstddef>

#include "core/buffer.hpp"

namespace headrace {

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
