// Which rows of a table are in which slots of a cache. It holds no rows: who reads copies them, while the slots that a
// read uses are held for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/policy.hpp"
#include "cache/slot_table.hpp"
#include "cache/slots.hpp"
#include "core/buffer.hpp"
#include "core/forks.hpp"

namespace headrace {

enum class CachePolicy { kStatic, kLru, kClock, kS3Fifo, kSieve, kLookAhead };

// What a read does, in this order: copy rows from the slots `hit_slots` to the positions `hit_positions`; read the rows
// `miss_ids`, which are distinct, to `miss_positions`; copy those at `fill_positions` into `fill_slots`, and from
// `repeated_positions` to `repeat_positions`, where a missing row comes again.
struct CacheLookup {
  Buffer<std::int64_t> hit_slots, hit_positions;
  Buffer<std::int64_t> miss_ids, miss_positions;
  Buffer<std::int64_t> fill_slots, fill_positions;
  Buffer<std::int64_t> repeated_positions, repeat_positions;
  Buffer<Slot> held;  // each once
  std::size_t num_ids = 0;
  std::size_t num_evicted = 0;
  std::uint64_t forks = 0;  // num_forks() of the process that looks up
};

struct CacheCounts {
  std::uint64_t hits, misses, evictions, bypasses, invalidations;
};

// A read finds its rows all at once, then those that it misses get slots, in its order: a free one, or that of a row
// that makes room. Otherwise they bypass the cache. A row that comes again in a read that misses it is found then, and
// one that another read is filling in is missing.
//
// All calls may come from several threads, and none waits for more than a look-up of another. In a forked process the
// index begins empty: what the parent's reads hold nobody would give back, and one may be half looked up.
class CacheIndex {
 public:
  // `fixed`: the rows of a static cache, distinct, as many as slots. `levels`: those of all rows, for look-ahead.
  CacheIndex(CachePolicy policy, std::size_t capacity, std::size_t num_rows, const std::int64_t* fixed,
             Buffer<std::uint8_t>&& levels);
  ~CacheIndex();

  // Throws InputError for an id that no row has; nothing is changed then.
  CacheLookup look_up(const std::int64_t* ids, std::size_t num_ids);

  // The read is over: its slots are filled in, or, if it failed, not. One that began before a fork holds nothing here.
  void finish(const CacheLookup& lookup, bool filled);

  // What was read of these rows so far is no longer right: no later look-up finds it.
  void invalidate(const std::int64_t* ids, std::size_t num_ids);

  // The same for all rows.
  void invalidate_all();

  void expect(const std::int64_t* ids, std::size_t num_ids);
  void expect_nothing();

  std::size_t capacity() const { return slots_.size(); }
  CacheCounts counts();
  std::size_t num_expected();
  std::size_t num_bytes();

  // The row in each slot, or -1 where none is ready.
  Buffer<std::int64_t> ids_in_slots();

 private:
  enum class State : std::uint8_t { kEmpty, kFilling, kReady };

  struct SlotState {
    std::uint64_t read;  // the last one that held it
    std::uint32_t miss;  // while it is looked up: which miss of this read fills it in
    State state;
    bool is_outdated;  // what it holds must not be found: it is emptied when nobody holds it
  };

  std::unique_lock<std::mutex> enter();
  void begin_empty();
  void begin_anew();
  void check(const char* what, const std::int64_t* ids, std::size_t num_ids) const;
  void find(const std::int64_t* ids, std::size_t num_ids, CacheLookup& lookup, Buffer<std::int64_t>& missing);
  void admit(const std::int64_t* ids, const Buffer<std::int64_t>& missing, CacheLookup& lookup);
  Slot slot_for(std::int64_t id, std::int64_t position, Buffer<Slot>& slot_of_miss, CacheLookup& lookup);
  void hold(Slot slot, CacheLookup& lookup);
  void make_worthless(Slot slot);
  void empty(Slot slot);

  std::size_t num_rows_;
  CachePolicy kind_;
  Buffer<std::uint8_t> levels_;
  ProcessMutex mutex_;
  std::uint64_t forks_ = 0;  // num_forks() of the process that all below is of
  SlotTable table_;
  Holds holds_;
  Buffer<SlotState> slots_;
  std::vector<Slot> free_;
  std::unique_ptr<Policy> policy_;
  std::uint64_t read_ = 0;
  CacheCounts counts_{};
};

}  // namespace headrace
