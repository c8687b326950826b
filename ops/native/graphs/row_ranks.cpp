#include "graphs/row_ranks.hpp"

#include <algorithm>
#include <string>

#include "core/errors.hpp"

namespace headrace {

Buffer<std::uint64_t> rank_rows(const std::int64_t* ids, std::size_t count, std::size_t num_ids) {
  const std::size_t num_blocks = RowRanks::num_blocks(num_ids);
  auto blocks = Buffer<std::uint64_t>::long_lived(num_blocks * RowRanks::kBlock);
  std::fill_n(blocks.data(), blocks.size(), 0);
  std::int64_t last = -1;
  for (std::size_t i = 0; i < count; ++i) {
    if (ids[i] <= last || static_cast<std::uint64_t>(ids[i]) >= num_ids) {
      throw InputError("expected ids that ascend in [0, " + std::to_string(num_ids) + "), got " +
                       std::to_string(ids[i]) + " behind " + std::to_string(last));
    }
    last = ids[i];
    const auto id = static_cast<std::uint64_t>(last);
    blocks.data()[id / RowRanks::kIds * RowRanks::kBlock + 2 + id % RowRanks::kIds / 64] |= std::uint64_t{1}
                                                                                            << (id % 64);
  }
  std::uint64_t before = 0;
  for (std::size_t b = 0; b < num_blocks; ++b) {
    std::uint64_t* const block = blocks.data() + b * RowRanks::kBlock;
    block[0] = before;
    std::uint64_t own = 0;
    for (std::size_t word = 0; word < RowRanks::kWords; ++word) {
      block[1] |= own << (RowRanks::kCountBits * word);
      own += static_cast<std::uint64_t>(__builtin_popcountll(block[2 + word]));
    }
    before += own;
  }
  return blocks;
}

Buffer<std::int64_t> find_rows(const std::uint64_t* blocks, std::size_t size, std::size_t num_ids,
                               const std::int64_t* ids, std::size_t count) {
  if (size != RowRanks::num_blocks(num_ids) * RowRanks::kBlock) {
    throw InputError("expected blocks of " + std::to_string(num_ids) + " ids");
  }
  const RowRanks ranks{blocks};
  Buffer<std::int64_t> places(count);
  visit_prefetched(
      count, kPrefetchDistance,
      [&](std::size_t i) {
        if (static_cast<std::uint64_t>(ids[i]) < num_ids) ranks.prefetch(ids[i]);
      },
      [&](std::size_t i) {
        if (static_cast<std::uint64_t>(ids[i]) >= num_ids) {
          throw InputError("expected ids in [0, " + std::to_string(num_ids) + "), got " + std::to_string(ids[i]));
        }
        places.data()[i] = ranks.find(ids[i]);
      });
  return places;
}

}  // namespace headrace
