// What the hops of a minibatch number: nodes, or nodes in trees. Both have a list of what was found so far, of which a
// part is the frontier of a hop, and put what that hop finds behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/id_range.hpp"
#include "sampling/frontier.hpp"
#include "sampling/fused.hpp"
#include "sampling/node_map.hpp"

namespace headrace {

// Which seed is there twice, and the first one that is the same, by the numbers that all of them got; there is one.
inline std::pair<std::size_t, std::size_t> repeated_seed(const Buffer<std::int64_t>& local) {
  std::size_t i = 0;
  while (local[i] == static_cast<std::int64_t>(i)) ++i;
  return {static_cast<std::size_t>(local[i]), i};
}

inline std::string both_are(const char* caller, const Buffer<std::int64_t>& local, const std::int64_t* seeds) {
  const auto [first, second] = repeated_seed(local);
  return std::string(caller) + ": seeds[" + std::to_string(first) + "] and seeds[" + std::to_string(second) +
         "] are both " + std::to_string(seeds[second]);
}

class NodeElements {
 public:
  static constexpr const char* kCaller = "BlockSampler.sample";

  // The seeds are nodes, and have to be distinct.
  NodeElements(NodeMap& map, std::size_t num_nodes, const std::int64_t* seeds, std::size_t num_seeds)
      : map_(map), num_nodes_(num_nodes) {
    if (num_seeds > NodeMap::kMostLocalIds) refuse_size();
    n_id_.ensure_spare(num_seeds + 1);
    Buffer<std::int64_t> local(num_seeds);
    n_id_.resize(map_.number(seeds, num_seeds, local.data(), n_id_.data(), 0));
    if (n_id_.size() == num_seeds) return;
    throw InputError(both_are(kCaller, local, seeds) + ": expected unique seeds; pass them through unique_and_inverse");
  }

  std::size_t size() const { return n_id_.size(); }
  Frontier frontier(std::size_t first) const { return {n_id_.data() + first, n_id_.size() - first}; }

  // Make room for what a chunk may bring and, where it does not fit, for `likely` edges, which follow it, too.
  void make_room(std::size_t num_edges, std::size_t likely) {
    const std::size_t extra = most_fresh(likely);
    if (most_fresh(num_edges) <= n_id_.spare() || extra <= n_id_.spare()) return;
    // The frontier is read from n_id while new ids go behind it: what it held before it grew stays until the hop ends.
    outgrown_.emplace_back();
    Buffer<std::int64_t> larger;
    larger.ensure_spare(n_id_.size() + std::max(extra, n_id_.size() / 2));
    larger.extend(n_id_);
    outgrown_.back() = std::exchange(n_id_, std::move(larger));
  }

  // Number the sources of a chunk of picks.
  template <class Index>
  void number(const Hop<Index>& chunk, std::size_t /*first_dst*/, Index* local) {
    constexpr std::size_t kEdgesPerCheck = std::size_t{1} << 20;  // between checks that local ids suffice
    const std::size_t num_edges = chunk.neighbors.size();
    for (std::size_t first = 0; first < num_edges; first += kEdgesPerCheck) {
      const std::size_t count = std::min(kEdgesPerCheck, num_edges - first);
      const std::size_t num_seen =
          map_.number(chunk.neighbors.data() + first, count, local + first, n_id_.data(), n_id_.size());
      if (num_seen > NodeMap::kMostLocalIds) refuse_size();
      n_id_.resize(num_seen);
    }
  }

  void end_hop() { outgrown_.clear(); }

  template <class Index>
  void take(Sampled<Index>& sampled) {
    sampled.n_id = std::move(n_id_);
  }

 private:
  [[noreturn]] static void refuse_size() {
    throw InputError(std::string(kCaller) + ": one minibatch reaches more than " +
                     std::to_string(NodeMap::kMostLocalIds) +
                     " nodes, more than a local id can number; use smaller batches or fanouts");
  }

  // What the map may write behind n_id.
  std::size_t most_fresh(std::size_t num_edges) const { return std::min(num_edges, num_nodes_ - n_id_.size()) + 1; }

  NodeMap& map_;
  std::size_t num_nodes_;
  Buffer<std::int64_t> n_id_;
  std::vector<Buffer<std::int64_t>> outgrown_;
};

// An element as one number: its slot above its node.
class ElementKeys {
 public:
  ElementKeys(std::size_t num_nodes, std::size_t num_trees) {
    while (std::uint64_t{1} << bits_ < num_nodes) ++bits_;
    if (num_trees > std::uint64_t{1} << (63 - bits_)) {
      throw InputError("BlockSampler.sample_trees: " + std::to_string(num_trees) + " trees of a graph of " +
                       std::to_string(num_nodes) + " nodes are more than 63 bits can tell apart; use smaller batches");
    }
  }

  std::int64_t of(std::int64_t node, std::int64_t slot) const { return slot << bits_ | node; }
  std::int64_t node(std::int64_t key) const { return key & ((std::int64_t{1} << bits_) - 1); }
  std::int64_t slot(std::int64_t key) const { return key >> bits_; }

 private:
  unsigned bits_ = 0;
};

// A source belongs to the tree of its destination.
class TreeElements {
 public:
  static constexpr const char* kCaller = "BlockSampler.sample_trees";

  // The seeds are nodes, and have to be distinct within a tree.
  TreeElements(NodeMap& map, std::size_t num_nodes, const Trees& trees, const std::int64_t* seeds,
               std::size_t num_seeds)
      : map_(map), trees_(trees), keys_(num_nodes, trees.num_trees) {
    if (num_seeds > NodeMap::kMostLocalIds) refuse_size();
    const std::size_t foreign = first_out_of_range(trees.slots, 0, num_seeds, trees.num_trees);
    if (foreign != num_seeds) {
      throw InputError(std::string(kCaller) + ": slots[" + std::to_string(foreign) +
                       "] = " + std::to_string(trees.slots[foreign]) + " is no tree: expected 0 <= slot < " +
                       std::to_string(trees.num_trees));
    }
    edge_keys_.resize(num_seeds);
    local_ids_.resize(num_seeds);
    for (std::size_t i = 0; i < num_seeds; ++i) edge_keys_[i] = keys_.of(seeds[i], trees.slots[i]);
    number_keys(0, num_seeds);
    if (numbered_.size() != num_seeds) {
      throw InputError(both_are(kCaller, local_ids_, seeds) + " in slot " +
                       std::to_string(trees.slots[repeated_seed(local_ids_).second]) +
                       ": expected seeds that are unique within their trees");
    }
    end_hop();
  }

  std::size_t size() const { return nodes_.size(); }
  Frontier frontier(std::size_t first) const {
    const auto from = [&](const Buffer<std::int64_t>& values) {
      return values.size() == 0 ? nullptr : values.data() + first;
    };
    return {nodes_.data() + first, nodes_.size() - first, trees_.streams == nullptr ? from(slots_) : from(streams_),
            from(bounds_), from(lows_)};
  }

  void make_room(std::size_t /*num_edges*/, std::size_t /*likely*/) {}

  // Of destinations `first_dst`, ... of all elements.
  template <class Index>
  void number(const Hop<Index>& chunk, std::size_t first_dst, Index* local) {
    constexpr std::size_t kEdgesPerCheck = std::size_t{1} << 16;  // between checks that local ids suffice
    const std::size_t num_edges = chunk.neighbors.size();
    edge_keys_.resize(num_edges);
    local_ids_.resize(num_edges);
    for (std::size_t i = 0; i + 1 < chunk.indptr.size(); ++i) {
      for (std::int64_t e = chunk.indptr[i]; e < chunk.indptr[i + 1]; ++e) {
        edge_keys_[e] = keys_.of(static_cast<std::int64_t>(chunk.neighbors[e]), slots_[first_dst + i]);
      }
    }
    for (std::size_t first = 0; first < num_edges; first += kEdgesPerCheck) {
      number_keys(first, std::min(kEdgesPerCheck, num_edges - first));
    }
    for (std::size_t e = 0; e < num_edges; ++e) local[e] = static_cast<Index>(local_ids_[e]);
  }

  // Take on those that were numbered since.
  void end_hop() {
    const std::size_t first = nodes_.size();
    nodes_.resize(numbered_.size());
    slots_.resize(numbered_.size());
    for (std::size_t i = first; i < numbered_.size(); ++i) {
      nodes_[i] = keys_.node(numbered_[i]);
      slots_[i] = keys_.slot(numbered_[i]);
    }
    look_up(trees_.streams, first, streams_);
    look_up(trees_.bounds, first, bounds_);
    look_up(trees_.lows, first, lows_);
  }

  template <class Index>
  void take(Sampled<Index>& sampled) {
    sampled.n_id = std::move(nodes_);
    sampled.slots = std::move(slots_);
  }

 private:
  [[noreturn]] static void refuse_size() {
    throw InputError(std::string(kCaller) + ": one minibatch reaches more than " +
                     std::to_string(NodeMap::kMostLocalIds) +
                     " nodes, those of two trees counted twice, more than a local id can number; use smaller batches "
                     "or fanouts");
  }

  void number_keys(std::size_t first, std::size_t count) {
    numbered_.ensure_spare(count + 1);
    numbered_.resize(
        map_.number(edge_keys_.data() + first, count, local_ids_.data() + first, numbered_.data(), numbered_.size()));
    if (numbered_.size() > NodeMap::kMostLocalIds) refuse_size();
  }

  // What is known of the trees of elements `first`, ...
  void look_up(const std::int64_t* of_trees, std::size_t first, Buffer<std::int64_t>& of_elements) const {
    if (of_trees == nullptr) return;
    of_elements.resize(slots_.size());
    for (std::size_t i = first; i < slots_.size(); ++i) of_elements[i] = of_trees[slots_[i]];
  }

  NodeMap& map_;
  Trees trees_;
  ElementKeys keys_;
  Buffer<std::int64_t> numbered_;  // keys of all elements, those of the hop that is going on too
  Buffer<std::int64_t> nodes_;     // all up to that hop, in the order of their local ids
  Buffer<std::int64_t> slots_;
  Buffer<std::int64_t> streams_;
  Buffer<std::int64_t> bounds_;
  Buffer<std::int64_t> lows_;
  Buffer<std::int64_t> edge_keys_;
  Buffer<std::int64_t> local_ids_;
};

}  // namespace headrace
