// Draws of edges by weight: draw i from the row of a destination takes variate i of its stream (stream_words.hpp), and
// falls on the edge that running_sums.hpp says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/prefetch.hpp"
#include "graphs/graph.hpp"
#include "random/stream_words.hpp"
#include "random/unit_interval.hpp"
#include "weighted/running_sums.hpp"
#include "weighted/weights.hpp"

namespace headrace {

class EdgeDraws {
 public:
  EdgeDraws(EdgeWeights weights, std::uint64_t key) : weights_(weights), keys_(key) {}

  const StreamKeys& keys() const { return keys_; }

  // What a draw from a row reads first.
  const void* beginning(Row row) const {
    return weights_.sums != nullptr ? weights_.sums + first_sum(row) : weights_.address(row.start);
  }

  // Prefetch what draws from a row will read, but of long rows only their ends: where draws fall is not known yet.
  void prefetch(Row row) const {
    if (row.degree == 0) return;
    const auto degree = static_cast<std::size_t>(row.degree);
    const std::size_t edges = degree <= kShort ? degree : 1;
    weights_.prefetch(row.start + static_cast<std::int64_t>(degree - edges), edges);
    const std::size_t num_sums = sums_in_row(row);
    if (weights_.sums == nullptr || num_sums == 0) return;
    const std::size_t sums = num_sums <= kShort ? num_sums : 1;
    prefetch_array(weights_.sums + first_sum(row) + (num_sums - sums), sums);
  }

  // Call take(offset) with the offsets in the row of draws 0, 1, ..., `count` of them or until it returns false. From a
  // row whose weights are all 0 there are none. `likely` is about how many will be wanted at first.
  template <class Take>
  void draw(std::int64_t node, Row row, std::uint64_t count, std::size_t likely, const Take& take) {
    const double* const sums = sums_of(row);
    if (weights_.narrow != nullptr) {
      draw_from(SummedRow<float>(weights_.narrow, sums, row), node, count, likely, take);
    } else {
      draw_from(SummedRow<double>(weights_.wide, sums, row), node, count, likely, take);
    }
  }

 private:
  static constexpr std::size_t kShort = 64;
  static constexpr std::size_t kAtOnce = 16;

  const double* sums_of(Row row) {
    if (weights_.sums != nullptr) return weights_.sums + first_sum(row);
    made_.resize(sums_in_row(row));
    sum_row(weights_, row, made_.data());
    return made_.data();
  }

  // Where some draws fall is found out first, and prefetched; then they are taken.
  template <class Weight, class Take>
  void draw_from(const SummedRow<Weight>& row, std::int64_t node, std::uint64_t count, std::size_t likely,
                 const Take& take) const {
    const double total = row.total();
    if (!(total > 0.0)) return;
    std::uint64_t variates[kAtOnce];
    double targets[kAtOnce];
    std::size_t parts[kAtOnce];
    likely = std::min(likely + likely % 2, kAtOnce);
    for (std::uint64_t first = 0; first < count; first += likely) {
      const auto num = static_cast<std::size_t>(std::min<std::uint64_t>(likely, count - first));
      stream_variates(keys_, static_cast<std::uint64_t>(node), first, num, variates);
      for (std::size_t i = 0; i < num; ++i) {
        const double u = unit_interval(variates[i]);
        targets[i] = target_of(u, total);
        parts[i] = row.part(u, targets[i]);
        row.prefetch(parts[i]);
      }
      for (std::size_t i = 0; i < num; ++i) {
        if (!take(row.find(parts[i], targets[i]))) return;
      }
    }
  }

  EdgeWeights weights_;
  StreamKeys keys_;
  Buffer<double> made_;  // sums of a row, where there are none of the graph
};

// A stream has variates for so many draws and edges of a row.
inline void check_variates(std::int64_t node, std::uint64_t count) {
  if (count <= kMostVariates) return;
  throw InputError("node " + std::to_string(node) + " needs " + std::to_string(count) + " variates, expected at most " +
                   std::to_string(kMostVariates) + "; lower the fanout");
}

}  // namespace headrace
