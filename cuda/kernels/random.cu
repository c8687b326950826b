// Twins of ops/native/random: dropout masks, and the words and variates themselves, for tests of the contract.

#include <cstdint>

#include "grid.cuh"
#include "random/stream.hpp"
#include "variates.cuh"

namespace headrace {

__global__ void dropout_mask(std::uint64_t key, const std::int64_t* ids, std::int64_t num_ids, std::int64_t width,
                             std::uint64_t threshold, unsigned char* kept) {
  const std::int64_t blocks = (width + 3) / 4;
  for_each_item(num_ids * blocks, [&](std::int64_t item) {
    const std::int64_t i = item / blocks;
    const std::int64_t block = item % blocks;
    const PhiloxCounter words =
        stream_block(key, static_cast<std::uint64_t>(ids[i]), static_cast<std::uint32_t>(block));
    for (std::int64_t lane = 0; lane < 4 && 4 * block + lane < width; ++lane) {
      kept[i * width + 4 * block + lane] = words[static_cast<unsigned>(lane)] >= threshold ? 1 : 0;
    }
  });
}

// The variates of LABOR of edges from `nodes`, numbers[i] of them before in their rows.
__global__ void labor_variates(std::uint64_t key, std::uint64_t next_key, std::int64_t blends, double cosine,
                               double sine, const std::int64_t* nodes, const std::int64_t* numbers,
                               std::int64_t num_nodes, std::uint64_t* out) {
  const VariateKeys keys{key, next_key, blends != 0, cosine, sine};
  for_each_item(num_nodes, [&](std::int64_t i) {
    out[i] = labor_variate(keys, static_cast<std::uint64_t>(nodes[i]), static_cast<std::uint32_t>(numbers[i]));
  });
}

}  // namespace headrace
