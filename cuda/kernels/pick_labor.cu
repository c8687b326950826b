// Twin of ops/native/sampling/pick_labor.hpp: LABOR-0 (arXiv 2210.13339) by variates that sources share.

#include <cstdint>

#include "core/wide.hpp"
#include "edge_numbers.cuh"
#include "grid.cuh"
#include "group.cuh"
#include "smallest.cuh"
#include "variates.cuh"

namespace headrace {

// The width of bins so that about twice as many keys as are wanted are in all of them.
inline int bin_bits_for(std::uint64_t wanted, std::int64_t degree) {
  const std::uint64_t parts =
      static_cast<std::uint64_t>(degree) / (4 * wanted);  // bins are such a part of all, or more
  int bits = kWidestBin;
  while (bits > 0 && parts >> (kWidestBin - bits) > 1) --bits;
  return bits;
}

// The `fanout` smallest variates, ties by position.
template <class Index>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksAtOnce) __global__
    void pick_labor_exact(const Index* indices, std::uint64_t key, std::uint64_t next_key, std::int64_t blends,
                          double cosine, double sine, const std::int32_t* numbers, const std::int64_t* number_starts,
                          const std::int64_t* slots, const std::int64_t* starts, const std::int64_t* degrees,
                          std::int64_t num_dst, std::int64_t fanout, const std::int64_t* first,
                          std::int64_t* positions) {
  __shared__ Bins bins[WarpGroup::kPerBlock];
  Bins* const bins_of_group = bins;
  if (fanout == 0) return;
  for_each_by_length(num_dst, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const std::int64_t degree = degrees[i];
    const std::int64_t start = starts[i];
    std::int64_t* const out = positions + first[i];
    if (degree <= fanout) {
      for (std::int64_t k = group.rank; k < degree; k += group.kThreads) out[k] = start + k;
      return;
    }
    VariateKeys keys{key, next_key, blends != 0, cosine, sine};
    if (slots != nullptr) keys = slot_keys(keys, static_cast<std::uint64_t>(slots[i]));
    const EdgeNumbers of_edges(numbers, number_starts, i, start);
    const auto variate = [&](std::int64_t k) {
      return labor_variate(keys, static_cast<std::uint64_t>(indices[start + k]), of_edges[k]);
    };
    const auto wanted = static_cast<std::uint64_t>(fanout);
    const Limit limit =
        find_limit(group, degree, wanted, bin_bits_for(wanted, degree), bins_of_group[group.in_block], variate);
    emit_up_to(group, degree, limit, variate, [&](std::int64_t k, std::int64_t place) { out[place] = start + k; });
  });
}

// Each edge on its own with probability min(1, fanout / degree). With `counts` picks are counted, else they are
// written: an array of no picks has no address.
template <class Index>
__launch_bounds__(WarpGroup::kBlockSize, WarpGroup::kBlocksAtOnce) __global__
    void pick_labor_poisson(const Index* indices, std::uint64_t key, std::uint64_t next_key, std::int64_t blends,
                            double cosine, double sine, const std::int32_t* numbers, const std::int64_t* number_starts,
                            const std::int64_t* slots, const std::int64_t* starts, const std::int64_t* degrees,
                            std::int64_t num_dst, std::int64_t fanout, std::int64_t* counts, const std::int64_t* first,
                            std::int64_t* positions) {
  for_each_by_length(num_dst, length_in(degrees), [&](const auto& group, std::int64_t i) {
    const std::int64_t degree = degrees[i];
    const std::int64_t start = starts[i];
    VariateKeys keys{key, next_key, blends != 0, cosine, sine};
    if (slots != nullptr) keys = slot_keys(keys, static_cast<std::uint64_t>(slots[i]));
    const EdgeNumbers of_edges(numbers, number_starts, i, start);
    // floor(r * degree / 2^64) < fanout, with one division per row in place of one product per edge
    const bool all = degree <= fanout;
    const std::uint64_t largest =
        all || fanout == 0
            ? 0
            : static_cast<std::uint64_t>(((static_cast<uint128>(static_cast<std::uint64_t>(fanout)) << 64) - 1) /
                                         static_cast<std::uint64_t>(degree));
    std::int64_t picked = 0;
    for (std::int64_t base = 0; base < (fanout == 0 ? 0 : degree); base += group.kThreads) {
      const std::int64_t k = base + group.rank;
      const bool takes = k < degree && (all || labor_variate(keys, static_cast<std::uint64_t>(indices[start + k]),
                                                             of_edges[k]) <= largest);
      int total = 0;
      const int before = group.count_before(takes, &total);
      if (takes && counts == nullptr) positions[first[i] + picked + before] = start + k;
      picked += total;
    }
    if (counts != nullptr && group.rank == 0) counts[i] = picked;
  });
}

}  // namespace headrace
