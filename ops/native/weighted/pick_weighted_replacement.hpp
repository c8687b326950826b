// Picks of in-edges by weight, with replacement: draw i is pick i.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"
#include "sampling/picker.hpp"
#include "weighted/edge_draws.hpp"
#include "weighted/weights.hpp"

namespace headrace {

class WeightedReplacementPicker {
 public:
  static constexpr Ahead kAhead = Ahead::kPicker;
  static constexpr bool kReturnsWeights = false;

  WeightedReplacementPicker(EdgeWeights weights, std::uint64_t key, std::uint64_t fanout)
      : fanout_(fanout), draws_(weights, key) {}

  std::size_t max_picks(std::uint64_t degree) const { return degree == 0 ? 0 : static_cast<std::size_t>(fanout_); }

  void prefetch_early(std::int64_t /*node*/) const {}
  const void* beginning(Row row) const { return draws_.beginning(row); }
  void prefetch(std::int64_t /*node*/, Row row) const { draws_.prefetch(row); }

  std::size_t operator()(std::int64_t node, Row row, std::int64_t* positions, float* /*weights*/) {
    if (row.degree == 0 || fanout_ == 0) return 0;
    check_variates(node, fanout_);
    std::size_t picked = 0;
    draws_.draw(node, row, fanout_, max_picks(row.degree), [&](std::size_t offset) {
      positions[picked++] = row.start + static_cast<std::int64_t>(offset);
      return true;
    });
    return picked;
  }

 private:
  std::uint64_t fanout_;
  EdgeDraws draws_;
};

}  // namespace headrace
