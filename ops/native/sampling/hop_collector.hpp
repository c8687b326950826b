// One hop as it comes, in global ids.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/room.hpp"
#include "sampling/hop.hpp"

namespace headrace {

template <class Index>
class HopCollector : public HopSink<Index> {
 public:
  explicit HopCollector(bool wants_edges = true) : wants_edges_(wants_edges) { hop_.indptr.push_back(0); }

  void expect(std::size_t num_dst, std::uint64_t limit) override {
    hop_.indptr.ensure_spare(num_dst);
    to_come_ = RowsToCome(num_dst, limit);
  }

  bool wants_edges() const override { return wants_edges_; }

  void append(const Hop<Index>& chunk) override {
    const std::int64_t start = hop_.indptr[hop_.indptr.size() - 1];
    for (std::size_t i = 1; i < chunk.indptr.size(); ++i) hop_.indptr.push_back(start + chunk.indptr[i]);
    const std::size_t num_edges = chunk.neighbors.size();
    const std::size_t likely = to_come_.take(chunk.indptr.size() - 1, num_edges);
    if (num_edges > hop_.neighbors.spare()) {
      hop_.neighbors.ensure_spare(likely);
      if (wants_edges_) hop_.edges.ensure_spare(likely);
    }
    hop_.neighbors.extend(chunk.neighbors);
    hop_.edges.extend(chunk.edges);
    hop_.weights.extend(chunk.weights);
    hop_.has_weights = chunk.has_weights;
  }

  Hop<Index>& hop() { return hop_; }

 private:
  bool wants_edges_;
  Hop<Index> hop_;
  RowsToCome to_come_;
};

}  // namespace headrace
