// Reads and updates of a small cache in several threads at once: copies of rows are plain memory, so a slot that is
// written while another read uses it shows as a race, and a row in the slot of another one as a wrong copy.
#include "cache.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "cache/cache_index.hpp"

namespace {

using headrace::Buffer;
using headrace::CacheIndex;
using headrace::CacheLookup;
using headrace::CachePolicy;

constexpr std::size_t kNumRows = 60;
constexpr std::size_t kNumReaders = 4;
constexpr int kNumReads = 400;

void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "cache: %s\n", what);
  std::exit(1);
}

// Rows are numbers: an id and a version.
class Cache {
 public:
  Cache(CachePolicy policy, std::size_t capacity)
      : index_(policy, capacity, kNumRows, fixed(capacity).data(), Buffer<std::uint8_t>()),
        expects_(policy == CachePolicy::kLookAhead),
        copies_(capacity),
        rows_(kNumRows) {
    for (std::size_t id = 0; id < kNumRows; ++id) rows_[id] = static_cast<std::int64_t>(id);
  }

  void read(const std::vector<std::int64_t>& ids, bool fails) {
    std::vector<std::int64_t> out(ids.size());
    std::vector<std::int64_t> least(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) least[i] = versions_[static_cast<std::size_t>(ids[i])];
    const CacheLookup lookup = index_.look_up(ids.data(), ids.size());
    for (std::size_t i = 0; i < lookup.hit_slots.size(); ++i) {
      out[at(lookup.hit_positions[i])] = copies_[at(lookup.hit_slots[i])];
    }
    for (std::size_t i = 0; i < lookup.miss_ids.size(); ++i) {
      out[at(lookup.miss_positions[i])] = rows_[at(lookup.miss_ids[i])].load();
    }
    for (std::size_t i = 0; !fails && i < lookup.fill_slots.size(); ++i) {
      copies_[at(lookup.fill_slots[i])] = out[at(lookup.fill_positions[i])];
    }
    for (std::size_t i = 0; i < lookup.repeat_positions.size(); ++i) {
      out[at(lookup.repeat_positions[i])] = out[at(lookup.repeated_positions[i])];
    }
    index_.finish(lookup, !fails);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      check(out[i] % static_cast<std::int64_t>(kNumRows) == ids[i], "the row of another id");
      check(out[i] / static_cast<std::int64_t>(kNumRows) >= least[i], "a row from before an update");
    }
  }

  // By one thread.
  void update(std::int64_t id, std::int64_t version) {
    rows_[at(id)] = id + version * static_cast<std::int64_t>(kNumRows);
    index_.invalidate(&id, 1);
    versions_[at(id)] = version;
  }

  void expect(const std::vector<std::int64_t>& ids) {
    if (expects_) index_.expect(ids.data(), ids.size());
  }

  void expect_nothing() {
    if (expects_) index_.expect_nothing();
  }

  void check_slots() {
    const Buffer<std::int64_t> ids = index_.ids_in_slots();
    std::vector<bool> seen(kNumRows);
    for (std::size_t slot = 0; slot < ids.size(); ++slot) {
      if (ids[slot] < 0) continue;
      check(!seen[at(ids[slot])], "a row in two slots");
      seen[at(ids[slot])] = true;
    }
  }

 private:
  static std::size_t at(std::int64_t place) { return static_cast<std::size_t>(place); }

  static std::vector<std::int64_t> fixed(std::size_t capacity) {
    std::vector<std::int64_t> ids(capacity + 1);
    for (std::size_t i = 0; i < capacity; ++i) ids[i] = static_cast<std::int64_t>(3 * i);
    return ids;
  }

  CacheIndex index_;
  bool expects_;
  std::vector<std::int64_t> copies_;
  std::vector<std::atomic<std::int64_t>> rows_;
  std::atomic<std::int64_t> versions_[kNumRows]{};
};

void read_at_once(CachePolicy policy, std::size_t capacity) {
  Cache cache(policy, capacity);
  std::atomic<std::size_t> num_done{0};
  std::vector<std::thread> readers;
  for (std::size_t reader = 0; reader < kNumReaders; ++reader) {
    readers.emplace_back([&, reader] {
      std::mt19937 random(static_cast<std::uint32_t>(reader));
      for (int read = 0; read < kNumReads; ++read) {
        std::vector<std::int64_t> ids(random() % 8);
        for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % (1 + random() % kNumRows));
        if (read % 3 != 0) cache.expect(ids);
        if (read % 100 == 99) cache.expect_nothing();
        cache.read(ids, read % 7 == 3);
      }
      ++num_done;
    });
  }
  std::mt19937 random(99);
  for (std::int64_t version = 1; num_done < kNumReaders; ++version) {
    cache.update(static_cast<std::int64_t>(random() % kNumRows), version);
    std::this_thread::yield();
  }
  for (std::thread& reader : readers) reader.join();
  cache.check_slots();
}

}  // namespace

void run_caches() {
  for (const CachePolicy policy : {CachePolicy::kStatic, CachePolicy::kLru, CachePolicy::kClock, CachePolicy::kS3Fifo,
                                   CachePolicy::kSieve, CachePolicy::kLookAhead}) {
    for (const std::size_t capacity : {0, 1, 5, 20}) read_at_once(policy, capacity);
  }
}
