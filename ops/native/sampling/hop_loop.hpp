// The loop of every rule that picks destination by destination: segments of a chunk of the frontier are found, a picker
// picks from one after the other, and what is at the picked positions is looked up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/parallel.hpp"
#include "core/pool.hpp"
#include "core/prefetch.hpp"
#include "random/variate_keys.hpp"
#include "sampling/hop.hpp"
#include "sampling/picker.hpp"
#include "sampling/segments.hpp"

namespace headrace {

// What one thread takes about for a row, for each edge that is read to choose from, and for each edge picked.
constexpr double kRowNanoseconds = 40;
constexpr double kReadNanoseconds = 2;
constexpr double kPickNanoseconds = 8;
constexpr std::ptrdiff_t kRowsAhead = 4;     // rows that are on their way while one is read
constexpr std::size_t kEdgesInFlight = 128;  // picked edges that are on their way while others are looked up

template <class Index, class MakePicker>
class HopLoop {
  using Picker = decltype(std::declval<const MakePicker&>()(std::declval<const HopGraph<Index>&>(),
                                                            std::declval<const VariateKeys&>()));

 public:
  // `make_picker(graph, keys)` makes a picker of draws under them.
  HopLoop(const HopCall<Index>& call, const MakePicker& make_picker)
      : graph_(call.graph),
        frontier_(call.frontier),
        rule_(call.rule),
        keys_(call.keys),
        sink_(call.sink),
        wants_edges_(call.sink.wants_edges()),
        make_picker_(make_picker),
        segment_(graph_, frontier_) {
    if constexpr (kReadsRows) {
      if (graph_.excluded != nullptr) packed_graph_ = graph_.excluded->packed_graph(graph_);
    }
  }

  void run(int num_threads) {
    sink_.expect(frontier_.size, rule_.limit());
    num_threads = threads_for(num_threads, nanoseconds());
    // Something is appended even of an empty frontier: it says whether there are weights.
    const std::size_t num_tasks = std::max<std::size_t>(1, (frontier_.size + kRowsInChunk - 1) / kRowsInChunk);
    const auto make_scratch = [&] { return Scratch{make_picker_(graph_, keys_), make_packed_picker(keys_), {}, {}}; };
    const auto sample_task = [&](std::size_t task, Scratch& scratch, Hop<Index>& hop) {
      const std::size_t first = part_bound(frontier_.size, num_tasks, task);
      sample_chunk(first, part_bound(frontier_.size, num_tasks, task + 1) - first, scratch, hop);
    };
    if (num_threads == 1) {
      Hop<Index> hop;
      Scratch scratch = make_scratch();
      for (std::size_t task = 0; task < num_tasks; ++task) {
        sample_task(task, scratch, hop);
        sink_.append(hop);
      }
      return;
    }
    Pool pool(make_scratch);
    std::vector<Hop<Index>> hops(num_tasks);
    parallel_in_order(
        num_threads, num_tasks,
        [&](std::size_t task) {
          auto scratch = pool.take();
          sample_task(task, *scratch, hops[task]);
          pool.give_back(std::move(scratch));
        },
        [&](std::size_t task) {
          sink_.append(hops[task]);
          hops[task] = {};
        });
  }

 private:
  // Picks of a chunk that are prefetched as they are made, so that they come while others are drawn: at most a cache
  // line each, a quarter of a second level cache of 1 MB.
  static constexpr std::size_t kMostPicksAhead = Picker::kAhead == Ahead::kPicks ? 4096 : 0;

  // Such rules read a row from end to end; the others draw positions.
  static constexpr bool kReadsRows = Picker::kAhead != Ahead::kNothing && Picker::kAhead != Ahead::kPicks;

  // What a task works with and leaves to the next one.
  struct Scratch {
    Picker picker;
    std::optional<Picker> packed_picker;  // where rows with excluded edges are read: what is left of them
    Segment segments[kRowsInChunk];
    Buffer<std::int64_t> positions;
  };

  std::optional<Picker> make_packed_picker(const VariateKeys& keys) const {
    if (!packed_graph_) return std::nullopt;
    return make_picker_(*packed_graph_, keys);
  }

  // About what one thread takes for a hop, were the frontier's degrees those of the whole graph.
  double nanoseconds() const {
    const CscView<Index>& csc = graph_.csc;
    const double degree =
        static_cast<double>(csc.num_edges) / static_cast<double>(std::max<std::size_t>(csc.num_nodes, 1));
    const auto limit = static_cast<double>(rule_.limit());
    // With a mean degree below 1 some rows are empty.
    const double picks = rule_.replaces() ? limit * std::min(degree, 1.0) : std::min(degree, limit);
    const double row = kRowNanoseconds + (kReadsRows ? kReadNanoseconds * degree : 0.0) + kPickNanoseconds * picks;
    return row * static_cast<double>(frontier_.size);
  }

  // The picks of a chunk of the frontier, of at most kRowsInChunk elements, over what `hop` held.
  void sample_chunk(std::size_t first, std::size_t num_dst, Scratch& scratch, Hop<Index>& hop) const {
    find_segments(first, num_dst, scratch);
    hop.has_weights = Picker::kReturnsWeights;
    hop.indptr.resize(num_dst + 1);
    hop.indptr[0] = 0;
    scratch.positions.resize(0);
    hop.weights.resize(0);
    if (frontier_.slots == nullptr) {
      pick(scratch, 0, num_dst, hop);
    } else {
      pick_by_slot(frontier_.slots + first, num_dst, scratch, hop);
    }
    look_up(scratch.positions, hop);
  }

  // Find out where the in-edges of a chunk are, and prefetch the beginnings of rows that are read whole. A prefetch
  // waits for the translation of its address. These come one right after the other, so that their waits overlap, which
  // those of prefetch_row do not.
  void find_segments(std::size_t first, std::size_t num_dst, Scratch& scratch) const {
    visit_prefetched(
        num_dst, kFarPrefetchDistance,
        [&](std::size_t i) {
          segment_.prefetch(first + i);
          if constexpr (Picker::kAhead == Ahead::kPicker) scratch.picker.prefetch_early(frontier_.nodes[first + i]);
        },
        [&](std::size_t i) {
          const Segment segment = segment_.row(first + i);
          scratch.segments[i] = segment;
          if (segment_.cuts()) return segment_.prefetch_times(segment.row);
          prefetch_beginning(segment.row, scratch);
        });
    if (!segment_.cuts()) return;
    for (std::size_t i = 0; i < num_dst; ++i) {
      scratch.segments[i] = segment_.cut(first + i, scratch.segments[i]);
      prefetch_beginning(scratch.segments[i].row, scratch);
    }
  }

  void prefetch_beginning(Row row, const Scratch& scratch) const {
    if constexpr (Picker::kAhead == Ahead::kRow || Picker::kAhead == Ahead::kPicker) {
      if (row.degree != 0) prefetch_far(scratch.picker.beginning(row));
    } else {
      static_cast<void>(row);
      static_cast<void>(scratch);
    }
  }

  // Elements of a slot come one after the other more often than not.
  void pick_by_slot(const std::int64_t* slots, std::size_t num_dst, Scratch& scratch, Hop<Index>& hop) const {
    for (std::size_t begin = 0, end = 0; begin < num_dst; begin = end) {
      while (end < num_dst && slots[end] == slots[begin]) ++end;
      const VariateKeys keys = slot_keys(keys_, static_cast<std::uint64_t>(slots[begin]));
      scratch.picker = make_picker_(graph_, keys);
      if (packed_graph_) scratch.packed_picker.emplace(make_picker_(*packed_graph_, keys));
      pick(scratch, begin, end, hop);
    }
  }

  // Pick from segments begin, ..., end - 1 in turn, behind what has been picked.
  void pick(Scratch& scratch, std::size_t begin, std::size_t end, Hop<Index>& hop) const {
    Picker& picker = scratch.picker;
    Buffer<std::int64_t>& positions = scratch.positions;
    const Segment* const stop = scratch.segments + end;
    const std::size_t usual = usual_picks(picker, scratch.segments + begin, stop);
    positions.ensure_spare(usual + kPickSlack);
    if (Picker::kReturnsWeights) hop.weights.ensure_spare(usual);
    for (std::size_t i = begin; i < end; ++i) {
      const Segment& segment = scratch.segments[i];
      prefetch_row(picker, &segment, stop);
      const std::size_t size = positions.size();
      const std::size_t max_picks = picker.max_picks(segment.row.degree);
      positions.ensure_spare(max_picks + kPickSlack);
      float* weights = nullptr;
      if (Picker::kReturnsWeights) {
        hop.weights.ensure_spare(max_picks);
        weights = hop.weights.data() + size;
      }
      const std::size_t count = segment.excluded == IdSet::kNone
                                    ? picker(segment.node, segment.row, positions.data() + size, weights)
                                    : pick_left(segment, scratch, positions.data() + size, weights);
      positions.resize(size + count);
      for (std::size_t e = size; e < std::min(size + count, kMostPicksAhead); ++e) {
        prefetch_far(graph_.csc.indices + positions[e]);
      }
      if (Picker::kReturnsWeights) hop.weights.resize(size + count);
      hop.indptr[i + 1] = static_cast<std::int64_t>(size + count);
    }
  }

  // Pick from what excluded edges leave of a segment.
  std::size_t pick_left(const Segment& segment, Scratch& scratch, std::int64_t* positions, float* weights) const {
    const Row row = segment.row;
    const Gaps gaps = graph_.excluded->gaps(segment.excluded, row);
    Row left{row.start, row.degree - gaps.count};
    if constexpr (kReadsRows) left.start = graph_.excluded->packed_start(segment.excluded, row.start);
    Picker& picker = kReadsRows ? *scratch.packed_picker : scratch.picker;
    const std::size_t count = picker(segment.node, left, positions, weights);
    for (std::size_t i = 0; i < count; ++i) positions[i] = gaps.unpack(row.start, positions[i] - left.start);
    return count;
  }

  // The picks to make room for: no row has more, but where a rule may pick whole rows it rarely picks more than its
  // limit.
  std::size_t usual_picks(const Picker& picker, const Segment* segment, const Segment* end) const {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    std::uint64_t count = 0;
    for (; segment != end; ++segment) {
      const auto more = std::min<std::uint64_t>(picker.max_picks(segment->row.degree), rule_.limit());
      if (more > kMost - count) throw std::bad_alloc();  // draws with replacement can be more than 64 bits count
      count += more;
    }
    return static_cast<std::size_t>(count);
  }

  // Prefetch what the picker will read of a row further on.
  void prefetch_row(Picker& picker, const Segment* segment, const Segment* end) const {
    if (end - segment <= kRowsAhead) return;
    const Row row = segment[kRowsAhead].row;
    if constexpr (Picker::kAhead == Ahead::kPicker) {
      picker.prefetch(segment[kRowsAhead].node, row);
    } else if constexpr (Picker::kAhead == Ahead::kRow) {
      constexpr std::uint64_t kPerLine = kCacheLineBytes / sizeof(Index);
      const auto count = static_cast<std::size_t>(std::min(row.degree, kLinesAhead * kPerLine));
      if (count == 0) return;
      prefetch_array(graph_.csc.indices + row.start, count);
      if (!graph_.weights.none()) graph_.weights.prefetch(row.start, count);
    }
  }

  // Look up what is at the picked positions, of which the first have been prefetched.
  void look_up(const Buffer<std::int64_t>& picks, Hop<Index>& hop) const {
    const std::size_t count = picks.size();
    const std::int64_t* const positions = picks.data();
    const Index* const indices = graph_.csc.indices;
    hop.neighbors.resize(count);
    Index* const neighbors = hop.neighbors.data();
    visit_prefetched(
        count, kEdgesInFlight, [=](std::size_t e) { prefetch_far(indices + positions[e]); },
        [=](std::size_t e) { neighbors[e] = indices[positions[e]]; }, std::min(count, kMostPicksAhead));
    if (!wants_edges_) return;
    hop.edges.resize(count);
    std::int64_t* const edges = hop.edges.data();
    if (graph_.edge_ids.is_position()) {
      std::copy(positions, positions + count, edges);
      return;
    }
    visit_prefetched(
        count, kEdgesInFlight, [&](std::size_t e) { prefetch_far(graph_.edge_ids.address(positions[e])); },
        [&](std::size_t e) { edges[e] = graph_.edge_ids[positions[e]]; });
  }

  const HopGraph<Index>& graph_;
  Frontier frontier_;
  Rule rule_;
  VariateKeys keys_;
  HopSink<Index>& sink_;
  bool wants_edges_;
  const MakePicker& make_picker_;
  SegmentFinder<Index> segment_;
  std::optional<HopGraph<Index>> packed_graph_;
};

// Sample with the pickers that `make_picker(graph, keys)` makes.
template <class Index, class MakePicker>
void sample_with(const HopCall<Index>& call, const MakePicker& make_picker) {
  HopLoop<Index, MakePicker>(call, make_picker).run(call.num_threads);
}

}  // namespace headrace
