#include "partition/stream_partition.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/prefetch.hpp"
#include "core/wide.hpp"
#include "random/shuffle.hpp"

namespace headrace {
namespace {

constexpr std::int32_t kNowhere = -1;
constexpr std::size_t kChunk = 1024;  // nodes whose order is drawn at once
// How many nodes ahead the parts of a row are prefetched, and how many entries of it; the rest is prefetched as the
// row is read.
constexpr std::size_t kOwnersAhead = 4;
constexpr std::size_t kFirstEntries = 16;

// The numbers of nodes of all parts, and the part that has the fewest: the first of those that are equal.
class PartSizes {
 public:
  PartSizes(std::size_t num_parts, std::int64_t capacity) : first_leaf_(1), capacity_(capacity), sizes_(num_parts, 0) {
    while (first_leaf_ < num_parts) first_leaf_ *= 2;
    winners_.assign(2 * first_leaf_, kNowhere);
    for (std::size_t part = 0; part < num_parts; ++part) {
      winners_[first_leaf_ + part] = static_cast<std::int32_t>(part);
    }
    for (std::size_t place = first_leaf_ - 1; place > 0; --place) decide(place);
  }

  std::int32_t smallest() const { return winners_[1]; }
  std::int64_t operator[](std::int32_t part) const { return sizes_[static_cast<std::size_t>(part)]; }
  std::int64_t room(std::int32_t part) const { return capacity_ - (*this)[part]; }
  void add(std::int32_t part, std::int64_t change) {
    sizes_[static_cast<std::size_t>(part)] += change;
    for (std::size_t place = (first_leaf_ + static_cast<std::size_t>(part)) / 2; place > 0; place /= 2) decide(place);
  }

 private:
  void decide(std::size_t place) {
    const std::int32_t left = winners_[2 * place];
    const std::int32_t right = winners_[2 * place + 1];
    winners_[place] = right != kNowhere && (*this)[right] < (*this)[left] ? right : left;
  }

  std::size_t first_leaf_;
  std::int64_t capacity_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int32_t> winners_;  // a tournament: place i holds the smaller of places 2i and 2i + 1
};

template <class Index>
class Stream {
 public:
  Stream(const CscView<Index>& graph, const StreamSettings& settings, std::int32_t* owners)
      : graph_(graph),
        settings_(settings),
        owners_(owners),
        sizes_(static_cast<std::size_t>(settings.num_parts), settings.capacity),
        neighbors_(static_cast<std::size_t>(settings.num_parts), 0) {
    if (!settings.shuffle || graph.num_nodes > kMostListedItems) return;
    listed_.resize(graph.num_nodes);
    shuffled_range(graph.num_nodes, 0, graph.num_nodes, settings.key, listed_.data());
  }

  void pass() {
    for (std::size_t begin = 0; begin < graph_.num_nodes; begin += kChunk) {
      const std::size_t count = std::min(kChunk, graph_.num_nodes - begin);
      const std::int64_t* const order = order_from(begin, count);
      for (std::size_t i = 0; i < count; ++i) {
        prefetch(order, i, count);
        place(order[i]);
      }
    }
  }

 private:
  // Nodes at places begin, ..., begin + count - 1 of the order.
  const std::int64_t* order_from(std::size_t begin, std::size_t count) {
    if (listed_.size() != 0) return listed_.data() + begin;
    if (settings_.shuffle) {
      shuffled_range(graph_.num_nodes, begin, begin + count, settings_.key, chunk_);
    } else {
      for (std::size_t i = 0; i < count; ++i) chunk_[i] = static_cast<std::int64_t>(begin + i);
    }
    return chunk_;
  }

  void prefetch(const std::int64_t* order, std::size_t i, std::size_t count) const {
    if (i + 4 * kOwnersAhead < count) prefetch_read(graph_.indptr + order[i + 4 * kOwnersAhead]);
    if (i + 2 * kOwnersAhead < count) {
      const auto start = static_cast<std::uint64_t>(graph_.indptr[order[i + 2 * kOwnersAhead]]);
      if (start < graph_.num_edges) prefetch_read(graph_.indices + start);
    }
    if (i + kOwnersAhead < count) {
      const Row row = graph_.row(order[i + kOwnersAhead]);
      for (std::size_t e = 0; e < std::min<std::size_t>(row.degree, kFirstEntries); ++e) {
        prefetch_owner(row.start + static_cast<std::int64_t>(e));
      }
    }
  }

  void prefetch_owner(std::int64_t edge) const {
    const auto source = static_cast<std::uint64_t>(graph_.indices[edge]);
    if (source < graph_.num_nodes) prefetch_read(owners_ + source);
  }

  void place(std::int64_t node) {
    const Row row = graph_.row(node);
    const std::int64_t stop = row.start + static_cast<std::int64_t>(row.degree);
    for (std::int64_t e = row.start; e < stop; ++e) {
      if (e + static_cast<std::int64_t>(kFirstEntries) < stop) {
        prefetch_owner(e + static_cast<std::int64_t>(kFirstEntries));
      }
      const auto source = static_cast<std::int64_t>(graph_.indices[e]);
      if (static_cast<std::uint64_t>(source) >= graph_.num_nodes) {
        throw InputError("indices[" + std::to_string(e) + "] = " + std::to_string(source) +
                         " is not a node id: expected ids below num_nodes = " + std::to_string(graph_.num_nodes) +
                         "; run check_csc on the graph");
      }
      const std::int32_t owner = owners_[source];
      if (owner == kNowhere || source == node) continue;
      if (neighbors_[static_cast<std::size_t>(owner)]++ == 0) touched_.push_back(owner);
    }
    if (owners_[node] != kNowhere) sizes_.add(owners_[node], -1);
    owners_[node] = best();
    sizes_.add(owners_[node], 1);
  }

  // The part for the node whose in-neighbours have just been counted; forgets the counts.
  std::int32_t best() {
    std::int32_t best = sizes_.smallest();
    uint128 best_score = 0;
    for (const std::int32_t part : touched_) {
      const std::uint64_t count = neighbors_[static_cast<std::size_t>(part)];
      neighbors_[static_cast<std::size_t>(part)] = 0;
      const std::int64_t room = sizes_.room(part);
      if (room <= 0) continue;
      const uint128 score = static_cast<uint128>(count) * static_cast<std::uint64_t>(room);
      if (score > best_score || (score == best_score && goes_before(part, best))) {
        best = part;
        best_score = score;
      }
    }
    touched_.clear();
    return best;
  }

  bool goes_before(std::int32_t part, std::int32_t other) const {
    return sizes_[part] != sizes_[other] ? sizes_[part] < sizes_[other] : part < other;
  }

  const CscView<Index>& graph_;
  const StreamSettings& settings_;
  std::int32_t* owners_;
  PartSizes sizes_;
  Buffer<std::int64_t> listed_;           // the order, where it is listed
  std::int64_t chunk_[kChunk];            // a piece of it otherwise
  std::vector<std::uint64_t> neighbors_;  // of the node at hand, in each part
  std::vector<std::int32_t> touched_;     // the parts that have some
};

void check(const StreamSettings& settings, std::size_t num_nodes) {
  if (settings.num_parts < 1 || settings.num_parts > kMostParts) {
    throw InputError("expected num_parts to be from 1 to " + std::to_string(kMostParts) + ", got " +
                     std::to_string(settings.num_parts));
  }
  if (settings.passes < 1) {
    throw InputError("expected passes to be at least 1, got " + std::to_string(settings.passes));
  }
  // Ceiling division: num_parts * capacity may not fit.
  const auto share = (static_cast<std::int64_t>(num_nodes) + settings.num_parts - 1) / settings.num_parts;
  if (settings.capacity < share) {
    throw InputError("expected capacity to be at least " + std::to_string(share) + ", " + std::to_string(num_nodes) +
                     " nodes over " + std::to_string(settings.num_parts) + " parts, got " +
                     std::to_string(settings.capacity));
  }
}

}  // namespace

template <class Index>
void stream_partition(const CscView<Index>& graph, StreamSettings settings, std::int32_t* owners) {
  check(settings, graph.num_nodes);
  std::fill(owners, owners + graph.num_nodes, kNowhere);
  Stream<Index> stream(graph, settings, owners);
  for (std::int64_t pass = 0; pass < settings.passes; ++pass) stream.pass();
}

template void stream_partition<std::int32_t>(const CscView<std::int32_t>&, StreamSettings, std::int32_t*);
template void stream_partition<std::int64_t>(const CscView<std::int64_t>&, StreamSettings, std::int32_t*);

}  // namespace headrace
