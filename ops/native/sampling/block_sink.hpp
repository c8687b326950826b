// What the sinks of the fused sampler share: a block that grows chunk by chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "core/room.hpp"
#include "sampling/fused.hpp"

namespace headrace {

template <class Index>
class BlockSink : public HopSink<Index> {
 public:
  // `caller` begins the messages of errors.
  BlockSink(SampledBlock<Index>& block, std::size_t num_nodes, bool want_edge_ids, const char* caller)
      : block_(block), num_nodes_(num_nodes), want_edge_ids_(want_edge_ids), caller_(caller) {
    if (block.indptr.size() == 0) block.indptr.push_back(0);
  }

  void expect(std::size_t num_dst, std::uint64_t limit) override {
    block_.indptr.ensure_spare(num_dst);
    to_come_ = RowsToCome(num_dst, limit);
  }

  bool wants_edges() const override { return want_edge_ids_; }

 protected:
  void check_sources(const Index* sources, std::size_t count) const {
    const std::size_t foreign = first_out_of_range(sources, 0, count, num_nodes_);
    if (foreign == count) return;
    throw GraphError(std::string(caller_) + ": indices hold " + std::to_string(sources[foreign]) +
                     ", which is not a node id: expected 0 <= id < num_nodes = " + std::to_string(num_nodes_) +
                     "; run check_csc on the graph");
  }

  // Make room for so many edges behind those that are there.
  void make_room_for_edges(std::size_t count) {
    block_.indices.ensure_spare(count);
    if (want_edge_ids_) block_.edge_ids.ensure_spare(count);
  }

  // Append what a chunk says of its edges, but for their sources.
  void append_edges(const Hop<Index>& chunk) {
    if (want_edge_ids_) block_.edge_ids.extend(chunk.edges);
    // Hops of rules that give no weights say nothing about the others' edges: then the shared block has none either.
    block_.has_weights &= chunk.has_weights;
    if (block_.has_weights) block_.weights.extend(chunk.weights);
  }

  SampledBlock<Index>& block_;
  const std::size_t num_nodes_;
  RowsToCome to_come_;

 private:
  const bool want_edge_ids_;
  const char* const caller_;
};

}  // namespace headrace
