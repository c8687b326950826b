// Twin of ops/native/sampling/compact.cpp: local numbers by first occurrence, by a hash table that all threads fill at
// once. A slot of the table has an id and what is known of it, side by side, so that one access of the memory brings
// both. What is known is its local number; of an id that is new, where it occurs first, behind all numbers given so
// far, until it has one.

#include <cstdint>

#include "faults.cuh"
#include "grid.cuh"
#include "segments.cuh"

namespace headrace {

// Kinds of faults.
constexpr int kRepeated = 0;  // an id that must be new is known

// In a slot that is free, and of an id of which nothing is known: all bits set.
constexpr std::uint64_t kFree = ~std::uint64_t{0};

// The hash table, [2^bits + 1][2]: more slots than there are ids, and one more for the id that marks free ones, and for
// ids that find no other because the table was made for fewer. The host makes it anew then.
struct IdTable {
  std::uint64_t* words;
  std::int64_t bits;

  std::uint64_t* place(std::int64_t slot) const { return words + 2 * slot + 1; }

  // The slot of an id, its own from now on.
  std::int64_t slot_of(std::uint64_t id) const {
    const std::uint64_t num_slots = std::uint64_t{1} << bits;
    if (id == kFree) return static_cast<std::int64_t>(num_slots);
    std::uint64_t slot = bits == 0 ? 0 : id * 0x9E3779B97F4A7C15U >> (64 - bits);
    for (std::uint64_t probe = 0; probe < num_slots; ++probe, slot = (slot + 1) & (num_slots - 1)) {
      std::uint64_t before = words[2 * slot];  // most ids are known, and reading is cheaper
      if (before == kFree) before = atomicCAS(words + 2 * slot, kFree, id);
      if (before == kFree || before == id) return static_cast<std::int64_t>(slot);
    }
    return static_cast<std::int64_t>(num_slots);
  }
};

// Find each value's slot, and let new ids know where they occur first.
template <class Id>
__global__ void find_slots(const Id* values, std::int64_t room, const std::int64_t* count, const std::int64_t* num_seen,
                           std::uint64_t* words, std::int64_t bits, std::int64_t* slots) {
  const IdTable table{words, bits};
  for_each_item(count_of(count, room), [&](std::int64_t i) {
    const std::int64_t slot = table.slot_of(static_cast<std::uint64_t>(values[i]));
    slots[i] = slot;
    atomicMin(table.place(slot), static_cast<std::uint64_t>(*num_seen + i));
  });
}

// Mark the first occurrences of new ids with 1, all else with 0.
__global__ void mark_first(std::int64_t room, const std::int64_t* count, const std::int64_t* num_seen,
                           const std::int64_t* table, const std::int64_t* slots, std::int64_t* first) {
  const std::int64_t num_values = count_of(count, room);
  for_each_item(room,
                [&](std::int64_t i) { first[i] = i < num_values && table[2 * slots[i] + 1] == *num_seen + i ? 1 : 0; });
}

// Number new ids: ranks[i] of them are among the values up to i. They go to `ids` behind those known. `sizes` is told
// how many ids there are now, and how many values there were.
template <class Id>
__global__ void number_new(const Id* values, std::int64_t room, const std::int64_t* count, const std::int64_t* num_seen,
                           const std::int64_t* ranks, const std::int64_t* slots, std::int64_t* table, std::int64_t* ids,
                           std::int64_t* sizes) {
  const std::int64_t num_values = count_of(count, room);
  if (thread_of_grid() == 0) {
    sizes[0] = *num_seen + (num_values == 0 ? 0 : ranks[num_values - 1]);
    sizes[1] = num_values;
  }
  for_each_item(num_values, [&](std::int64_t i) {
    if (ranks[i] == (i == 0 ? 0 : ranks[i - 1])) return;
    const std::int64_t number = *num_seen + ranks[i] - 1;
    table[2 * slots[i] + 1] = number;
    ids[number] = static_cast<std::int64_t>(values[i]);
  });
}

// Each value's local number.
template <class Id>
__global__ void renumber(std::int64_t room, const std::int64_t* count, const std::int64_t* table,
                         const std::int64_t* slots, Id* local) {
  for_each_item(count_of(count, room), [&](std::int64_t i) { local[i] = static_cast<Id>(table[2 * slots[i] + 1]); });
}

// Give numbers to the first ids, which must all be distinct: the first one that is there already is a fault. Whoever
// comes to a slot second knows of one before: the second of equal ones meets the first, or is met by it.
__global__ void begin_ids(const std::int64_t* values, std::int64_t count, std::uint64_t* words, std::int64_t bits,
                          std::int64_t* ids, std::int64_t* num_seen, std::int64_t* faults) {
  const IdTable table{words, bits};
  if (thread_of_grid() == 0) *num_seen = count;
  for_each_item(count, [&](std::int64_t i) {
    ids[i] = values[i];
    const std::int64_t slot = table.slot_of(static_cast<std::uint64_t>(values[i]));
    const auto before = static_cast<std::int64_t>(atomicMin(table.place(slot), static_cast<std::uint64_t>(i)));
    if (before >= 0) report(faults, kRepeated, before > i ? before : i);
  });
}

// Find the sources of picked edges, as `look_up` does, and the slots of these, as `find_slots` does.
template <class Index, class EdgeId>
__global__ void find_sources(const Index* indices, std::int64_t num_nodes, const EdgeId* edge_ids,
                             const std::int64_t* positions, std::int64_t room, const std::int64_t* count,
                             Index* neighbors, std::int64_t* edges, std::int64_t* faults, const std::int64_t* num_seen,
                             std::uint64_t* words, std::int64_t bits, std::int64_t* slots) {
  const IdTable table{words, bits};
  const PickedEdges<Index, EdgeId> picked{indices, num_nodes, edge_ids, positions};
  for_each_item(count_of(count, room), [&](std::int64_t e) {
    picked.look_up(e, neighbors, edges, faults);
    const std::int64_t slot = table.slot_of(static_cast<std::uint64_t>(neighbors[e]));
    slots[e] = slot;
    atomicMin(table.place(slot), static_cast<std::uint64_t>(*num_seen + e));
  });
}

// The ids that are new since there were *num_before of them, and how many that is.
__global__ void take_new(const std::int64_t* ids, const std::int64_t* num_before, const std::int64_t* num_after,
                         std::int64_t room, std::int64_t* taken, std::int64_t* num_new) {
  const std::int64_t count = *num_after - *num_before;
  if (thread_of_grid() == 0) *num_new = count;
  for_each_item(count < room ? count : room, [&](std::int64_t i) { taken[i] = ids[*num_before + i]; });
}

}  // namespace headrace
