#include "sampling/typed_hop.hpp"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "sampling/hop_collector.hpp"
#include "sampling/picker.hpp"

namespace headrace {
namespace {

// The elements of a frontier that a relation ends in, and its rows of these.
struct Part {
  Buffer<std::int64_t> elements;
  Buffer<std::int64_t> rows;
  Buffer<std::int64_t> slots;
  Buffer<std::int64_t> bounds;
  Buffer<std::int64_t> lows;

  Frontier frontier() const {
    const auto or_none = [](const Buffer<std::int64_t>& ids) { return ids.size() == 0 ? nullptr : ids.data(); };
    return {rows.data(), rows.size(), or_none(slots), or_none(bounds), or_none(lows)};
  }
};

Part part_of(const Frontier& frontier, const Relation& relation) {
  Part part;
  part.elements.ensure_spare(frontier.size);
  part.rows.ensure_spare(frontier.size);
  for (std::size_t i = 0; i < frontier.size; ++i) {
    const std::int64_t node = frontier.nodes[i];
    if (!relation.ends_in(node)) continue;
    part.elements.push_back(static_cast<std::int64_t>(i));
    part.rows.push_back(relation.row(node));
  }
  const auto taken = [&](const std::int64_t* values, Buffer<std::int64_t>& out) {
    if (values == nullptr) return;
    out.ensure_spare(part.elements.size());
    for (std::size_t i = 0; i < part.elements.size(); ++i) out.push_back(values[part.elements[i]]);
  };
  taken(frontier.slots, part.slots);
  taken(frontier.bounds, part.bounds);
  taken(frontier.lows, part.lows);
  return part;
}

// The picks of a relation, which are handed out element by element.
template <class Index>
struct Picks {
  Part part;
  HopCollector<Index> collector;
  std::size_t next = 0;

  explicit Picks(bool wants_edges) : collector(wants_edges) {}
};

// Puts the picks of relations side by side, destination by destination.
template <class Index>
class Joiner {
 public:
  Joiner(std::deque<Picks<Index>>& relations, bool wants_edges) : relations_(relations), wants_edges_(wants_edges) {
    for (Picks<Index>& one : relations) chunk_.has_weights |= one.collector.hop().has_weights;
  }

  const Hop<Index>& join(std::size_t first, std::size_t end) {
    chunk_.indptr.resize(0);
    chunk_.neighbors.resize(0);
    chunk_.edges.resize(0);
    chunk_.weights.resize(0);
    chunk_.indptr.ensure_spare(end - first + 1);
    chunk_.indptr.push_back(0);
    for (std::size_t i = first; i < end; ++i) {
      for (Picks<Index>& one : relations_) take(one, static_cast<std::int64_t>(i));
      chunk_.indptr.push_back(static_cast<std::int64_t>(chunk_.neighbors.size()));
    }
    return chunk_;
  }

 private:
  void take(Picks<Index>& one, std::int64_t element) {
    if (one.next == one.part.elements.size() || one.part.elements[one.next] != element) return;
    const Hop<Index>& hop = one.collector.hop();
    const auto start = static_cast<std::size_t>(hop.indptr[one.next]);
    const auto count = static_cast<std::size_t>(hop.indptr[one.next + 1]) - start;
    ++one.next;
    copy(hop.neighbors.data() + start, count, chunk_.neighbors);
    if (wants_edges_) copy(hop.edges.data() + start, count, chunk_.edges);
    if (!chunk_.has_weights) return;
    if (hop.has_weights) return copy(hop.weights.data() + start, count, chunk_.weights);
    chunk_.weights.ensure_spare(count);
    for (std::size_t e = 0; e < count; ++e) chunk_.weights.push_back(1.0F);  // all count alike
  }

  template <class T>
  static void copy(const T* values, std::size_t count, Buffer<T>& out) {
    out.ensure_spare(count);
    std::copy(values, values + count, out.data() + out.size());
    out.resize(out.size() + count);
  }

  std::deque<Picks<Index>>& relations_;
  bool wants_edges_;
  Hop<Index> chunk_;
};

}  // namespace

template <class Index>
void sample_typed_hop(const TypedHopCall<Index>& call) {
  if (call.rules.size() != call.relations.size()) {
    throw InputError("sample_hop: expected one rule for each of " + std::to_string(call.relations.size()) +
                     " relations, got " + std::to_string(call.rules.size()));
  }
  const bool wants_edges = call.sink.wants_edges();
  // A collector stays where it is made.
  std::deque<Picks<Index>> relations;
  std::uint64_t limit = 0;
  for (std::size_t r = 0; r < call.relations.size(); ++r) {
    Picks<Index>& one = relations.emplace_back(wants_edges);
    one.part = part_of(call.frontier, call.relations[r]);
    // Relations without destinations here are sampled as well: ranks that reduce together do so for each.
    sample_hop<Index>(
        {call.graph, one.part.frontier(), call.rules[r], call.keys, call.num_threads, one.collector, call.reducer});
    const std::uint64_t most = call.rules[r].limit();
    limit = limit > UINT64_MAX - most ? UINT64_MAX : limit + most;
  }
  call.sink.expect(call.frontier.size, limit);
  Joiner<Index> joiner(relations, wants_edges);
  std::size_t first = 0;
  do {  // something is appended even of an empty frontier: it says whether there are weights
    const std::size_t end = std::min(first + kRowsInChunk, call.frontier.size);
    call.sink.append(joiner.join(first, end));
    first = end;
  } while (first < call.frontier.size);
}

template void sample_typed_hop<std::int32_t>(const TypedHopCall<std::int32_t>&);
template void sample_typed_hop<std::int64_t>(const TypedHopCall<std::int64_t>&);

}  // namespace headrace
