// A set-associative cache: which ids are in which slots, and which missing ones take whose. A set has up to 32 ways,
// one for each lane of the warp that works on it. No result depends on the order in which warps come.

#include <cstdint>

#include "grid.cuh"

namespace headrace {

// Where there is no id, and no slot.
constexpr std::int64_t kNone = -1;

// Of the missing ids of a set so many compete for its ways: the first ones. More would keep one warp at work for long
// where a cache is small, and could hardly find room.
constexpr std::int64_t kMostMissing = 128;

// Reads that are expected are numbered by so many bits; the next number behind stands for "never again".
constexpr int kExpectedBits = 16;
constexpr std::uint64_t kNever = std::uint64_t{1} << kExpectedBits;

// What is counted.
constexpr int kHits = 0;
constexpr int kFills = 1;
constexpr int kEvictions = 2;

// Which slots are whose: those of a set stand side by side, and the first sets have one more than the others, if they
// do not come out even.
struct Sets {
  std::int64_t num_sets;
  std::int64_t num_ways;    // of a set
  std::int64_t num_longer;  // sets that have one more
  std::int64_t is_mixed;    // or else ids go round the sets, so that as many ids as slots all have room

  std::int64_t set_of(std::int64_t id) const {
    if (is_mixed == 0) return id % num_sets;
    auto mixed = static_cast<std::uint64_t>(id);
    mixed = (mixed ^ (mixed >> 33)) * 0xFF51AFD7ED558CCDU;
    mixed = (mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53U;
    return static_cast<std::int64_t>((mixed >> 32) * static_cast<std::uint64_t>(num_sets) >> 32);
  }
  std::int64_t first_of(std::int64_t set) const { return set * num_ways + (set < num_longer ? set : num_longer); }
  // The slot of this lane's way in a set, or none.
  std::int64_t slot_of(std::int64_t set, int lane) const {
    return lane < num_ways + (set < num_longer ? 1 : 0) ? first_of(set) + lane : kNone;
  }
};

// The slot that has an id, the same for all lanes, or none.
inline std::int64_t find_slot(const Sets& sets, const std::int64_t* held, std::int64_t set, std::int64_t id, int lane) {
  const std::int64_t slot = sets.slot_of(set, lane);
  const unsigned found = __ballot_sync(kAllLanes, slot != kNone && held[slot] == id ? 1 : 0);
  return found == 0 ? kNone : sets.first_of(set) + __ffs(static_cast<int>(found)) - 1;
}

// Look ids up, and say of which set those are that are missing; num_sets for all others, and for ids below 0, which no
// cache has.
template <class Id>
__global__ void find_ids(const Id* ids, std::int64_t num_ids, std::int64_t num_sets, std::int64_t num_ways,
                         std::int64_t num_longer, std::int64_t is_mixed, const std::int64_t* held, std::int64_t* used,
                         std::int64_t now, std::int64_t* slots, std::int64_t* fills, std::int32_t* missing_of,
                         std::int64_t* counts) {
  const Sets sets{num_sets, num_ways, num_longer, is_mixed};
  std::int64_t hits = 0;
  for_each_by_warp(num_ids, [&](std::int64_t i, int lane) {
    const auto id = static_cast<std::int64_t>(ids[i]);
    const std::int64_t set = id < 0 ? num_sets : sets.set_of(id);
    const std::int64_t slot = id < 0 ? kNone : find_slot(sets, held, set, id, lane);
    if (lane != 0) return;
    slots[i] = slot;
    fills[i] = kNone;
    missing_of[i] = static_cast<std::int32_t>(slot == kNone ? set : num_sets);
    if (slot != kNone) used[slot] = now;
    hits += slot != kNone ? 1 : 0;
  });
  if (hits != 0) atomicAdd(reinterpret_cast<unsigned long long*>(counts) + kHits, hits);
}

// Where the missing ids of each set begin, which are sorted by sets; and none of them is expected so far.
__global__ void begin_runs(const std::int32_t* set_of, std::int64_t num_ids, std::int64_t num_sets, std::int64_t* begin,
                           std::int64_t* next_of) {
  for_each_item(num_ids, [&](std::int64_t k) {
    next_of[k] = static_cast<std::int64_t>(kNever);
    if (set_of[k] < num_sets && (k == 0 || set_of[k - 1] != set_of[k])) begin[set_of[k]] = k;
  });
}

// Let slots and missing ids know of a read to come, `number` reads behind the next one. Farther ones have been before,
// and are forgotten where this one is nearer.
template <class Expected, class Id>
__global__ void expect_ids(const Expected* expected, std::int64_t num_expected, std::int64_t number,
                           std::int64_t num_sets, std::int64_t num_ways, std::int64_t num_longer, std::int64_t is_mixed,
                           const std::int64_t* held, std::int64_t* next, std::int64_t now, const Id* ids,
                           const std::int64_t* order, const std::int32_t* set_of, std::int64_t num_ids,
                           const std::int64_t* begin, std::int64_t* next_of) {
  const Sets sets{num_sets, num_ways, num_longer, is_mixed};
  for_each_by_warp(num_expected, [&](std::int64_t i, int lane) {
    const auto id = static_cast<std::int64_t>(expected[i]);
    if (id < 0) return;
    const std::int64_t set = sets.set_of(id);
    const std::int64_t slot = sets.slot_of(set, lane);
    if (slot != kNone && held[slot] == id) next[slot] = now << kExpectedBits | number;
    if (begin[set] == kNone) return;
    for (std::int64_t k = begin[set] + lane; k < num_ids && k < begin[set] + kMostMissing; k += kWarp) {
      if (set_of[k] == set && static_cast<std::int64_t>(ids[order[k]]) == id) next_of[k] = number;
    }
  });
}

// How well a way is given up: the farther the next use, the longer the last one is ago, the lower its lane, the better.
inline std::uint64_t worth_of_giving_up(std::uint64_t next, std::int64_t age, int lane) {
  constexpr std::int64_t kMostAge = (std::int64_t{1} << 40) - 1;
  const auto since = static_cast<std::uint64_t>(age < kMostAge ? age : kMostAge);
  return (next << 40 | since) << 5 | static_cast<std::uint64_t>(kWarp - 1 - lane);
}

// Give slots to missing ids, a warp for those of a set in the order in which they were asked for. `next_of` is null
// where no read is expected. With `keeps_found` no slot makes room that this read has found.
template <class Id>
__global__ void give_slots(const Id* ids, const std::int64_t* order, const std::int32_t* set_of, std::int64_t num_ids,
                           const std::int64_t* next_of, std::int64_t num_sets, std::int64_t num_ways,
                           std::int64_t num_longer, std::int64_t is_mixed, std::int64_t* held, std::int64_t* used,
                           std::int64_t* next, std::int64_t now, std::int64_t keeps_found, std::int64_t* fills,
                           std::int64_t* counts) {
  const Sets sets{num_sets, num_ways, num_longer, is_mixed};
  std::int64_t filled = 0;
  std::int64_t evicted = 0;
  for_each_by_warp(num_ids, [&](std::int64_t begin, int lane) {
    const std::int32_t set = set_of[begin];
    if (set >= num_sets || (begin != 0 && set_of[begin - 1] == set)) return;
    const std::int64_t slot = sets.slot_of(set, lane);
    const bool is_way = slot != kNone;
    std::int64_t has = is_way ? held[slot] : kNone;
    std::int64_t last = is_way ? used[slot] : 0;
    const std::int64_t stamp = is_way ? next[slot] : 0;
    std::uint64_t following = stamp >> kExpectedBits == now ? static_cast<std::uint64_t>(stamp) % kNever : kNever;
    std::int64_t filled_by = kNone;  // the position of the id of this read that has the way by now
    for (std::int64_t k = begin; k < num_ids && k < begin + kMostMissing && set_of[k] == set; ++k) {
      const auto id = static_cast<std::int64_t>(ids[order[k]]);
      if (__ballot_sync(kAllLanes, is_way && has == id ? 1 : 0) != 0) continue;  // it was asked for before
      const bool may_go = is_way && !(keeps_found != 0 && last == now && filled_by == kNone);
      std::uint64_t worst = may_go ? worth_of_giving_up(following, now - last, lane) : 0;
      for (int with = 1; with < kWarp; with *= 2) {
        const std::uint64_t other = __shfl_xor_sync(kAllLanes, worst, with);
        worst = other > worst ? other : worst;
      }
      const std::uint64_t own_next = next_of == nullptr ? kNever : static_cast<std::uint64_t>(next_of[k]);
      if (worst >> 5 <= worth_of_giving_up(own_next, 0, 0) >> 5) continue;
      if (lane != kWarp - 1 - static_cast<int>(worst % kWarp)) continue;
      if (filled_by != kNone) fills[filled_by] = kNone;
      if (filled_by == kNone && has != kNone) ++evicted;
      filled += filled_by == kNone ? 1 : 0;
      has = id;
      last = now;
      following = own_next;
      filled_by = order[k];
      fills[filled_by] = slot;
    }
    if (filled_by == kNone) return;
    held[slot] = has;
    used[slot] = last;
  });
  auto* const totals = reinterpret_cast<unsigned long long*>(counts);
  if (filled != 0) atomicAdd(totals + kFills, filled);
  if (evicted != 0) atomicAdd(totals + kEvictions, evicted);
}

}  // namespace headrace
