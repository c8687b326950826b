// LABOR-0, layer-neighbour sampling (arXiv 2210.13339): one variate r_t per *source* vertex, shared by all destinations
// of the hop, so that destinations prefer the same neighbours and a batch touches fewer vertices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bounded.hpp"
#include "buffer.hpp"
#include "graph.hpp"
#include "labor_variates.hpp"
#include "pick_uniform.hpp"
#include "select_smallest.hpp"

namespace headrace {

// Exactly min(fanout, degree) picks: the smallest r_t, ties (edges of one source) by position. Ascending positions.
template <class Index>
class LaborExactPicker {
 public:
  static constexpr bool kScansRow = true;
  static constexpr bool kReturnsWeights = false;

  LaborExactPicker(const Index* indices, std::uint64_t key, std::uint64_t fanout)
      : indices_(indices), key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(std::min(degree, fanout_)); }

  std::size_t operator()(std::int64_t /*vertex*/, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    if (fanout_ == 0) return 0;
    const auto degree = static_cast<std::size_t>(row.degree);
    std::uint64_t* const variates = selector_.keys(degree);
    labor_variates(key_, indices_ + row.start, degree, variates);
    std::size_t picked = 0;
    selector_.select(static_cast<std::size_t>(fanout_),
                     [&](std::size_t i) { positions[picked++] = row.start + static_cast<std::int64_t>(i); });
    return picked;
  }

 private:
  const Index* indices_;
  std::uint64_t key_;
  std::uint64_t fanout_;
  SmallestSelector selector_;
};

// Each edge on its own with probability min(1, fanout / degree): kept iff floor(r_t * degree / 2^64) < fanout.
template <class Index>
class LaborPoissonPicker {
 public:
  static constexpr bool kScansRow = true;
  static constexpr bool kReturnsWeights = false;

  LaborPoissonPicker(const Index* indices, std::uint64_t key, std::uint64_t fanout)
      : indices_(indices), key_(key), fanout_(fanout) {}

  std::size_t max_picks(std::uint64_t degree) const { return static_cast<std::size_t>(degree); }

  std::size_t operator()(std::int64_t /*vertex*/, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree <= fanout_) return take_all(row, positions);
    if (fanout_ == 0) return 0;
    const auto degree = static_cast<std::size_t>(row.degree);
    variates_.resize(degree);
    labor_variates(key_, indices_ + row.start, degree, variates_.data());
    // floor(r * degree / 2^64) < fanout, with one division per row in place of one product per edge
    const auto largest = static_cast<std::uint64_t>(((static_cast<uint128>(fanout_) << 64) - 1) / row.degree);
    std::size_t picked = 0;
    for (std::size_t i = 0; i < degree; ++i) {
      positions[picked] = row.start + static_cast<std::int64_t>(i);
      picked += variates_[i] <= largest ? 1 : 0;
    }
    return picked;
  }

 private:
  const Index* indices_;
  std::uint64_t key_;
  std::uint64_t fanout_;
  Buffer<std::uint64_t> variates_;
};

}  // namespace headrace
