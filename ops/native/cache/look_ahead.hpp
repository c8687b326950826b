// Belady's rule within a window: the row whose next use is farthest makes room, those without a known one first.
#pragma once

#include "cache/expected_reads.hpp"
#include "cache/policy.hpp"
#include "cache/slot_table.hpp"
#include "cache/use_counts.hpp"

namespace headrace {

// Rows without a known next use go in the order of their levels, the lowest first: how often they were used so far,
// what is expected included, or levels that the caller gives. Among equals the one that is longest in its list goes
// first. A missing row that would be the next one to go is not taken at all.
//
// A read chooses among all rows that it has found, the rows that it misses and the others that nobody holds, at once:
// also a row that it has found makes room for one that is used again sooner. Slots that another read holds are in no
// list.
class LookAhead final : public Policy {
 public:
  // `levels`: of each row, or none.
  LookAhead(std::size_t capacity, std::size_t num_rows, const Holds& holds, const SlotTable& table,
            const Buffer<std::uint8_t>& levels);

  void begin(const std::int64_t* ids, std::size_t num_ids) override;
  void touch(const Slot* slots, const std::int64_t* positions, std::size_t num_slots) override;
  Slot victim(std::int64_t id, std::int64_t position) override;
  void insert(Slot slot, std::int64_t id, std::int64_t position) override;
  void bypass(Slot slot, std::int64_t position) override;
  void end(const Slot* held, std::size_t num_held) override;
  void release(const Slot* slots, std::size_t num_slots) override;
  void remove(Slot slot) override;
  void expect(const std::int64_t* ids, std::size_t num_ids) override;
  void expect_nothing() override;
  std::size_t num_expected() const override { return reads_.num_outstanding(); }
  std::size_t num_bytes() const override;

 private:
  static constexpr std::size_t kNumLevels = 256;

  struct Row {
    Use next;  // the next use that is known
    std::uint8_t level;
    bool is_listed;
  };

  void count(const std::int64_t* ids, std::size_t num_ids);
  std::size_t level_of(std::int64_t id) const;
  Use next_use(std::int64_t id, std::int64_t position) const;
  void use(Slot slot, std::int64_t position);
  SlotList& list_of(const Row& row);
  std::size_t rank_of(const Row& row) const;
  void link(Slot slot);
  void unlink(Slot slot);
  void drop_finished();

  const Holds& holds_;
  const SlotTable& table_;
  SlotLinks links_;
  Buffer<Row> rows_;
  const Buffer<std::uint8_t>& levels_;
  UseCounts counts_;
  ExpectedReads reads_;
  SlotList unknown_[kNumLevels];    // rows without a known next use, by level
  std::uint32_t current_ = kNever;  // the expected read that looks up now
  std::size_t worst_ = 0;           // no row has a lower rank
};

}  // namespace headrace
