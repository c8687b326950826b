// Which row makes room for another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cache/slots.hpp"
#include "core/errors.hpp"

namespace headrace {

// A read uses each of its rows once, however often it comes in it. It is told of in this order: begin; touch, with all
// that are found; for each missing row, where no slot is free, victim, and insert if it got a slot, or bypass; end.
// From touch or insert on the slots are held, until release.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual void begin(const std::int64_t* /*ids*/, std::size_t /*num_ids*/) {}

  // Rows were found; `positions` is where they come first in the read.
  virtual void touch(const Slot* slots, const std::int64_t* positions, std::size_t num_slots) = 0;

  // The slot whose row makes room for the row `id`, taken out of the policy; kNoSlot if none can or should. Of those
  // that are held, only look-ahead takes some.
  virtual Slot victim(std::int64_t id, std::int64_t position) = 0;

  virtual void insert(Slot slot, std::int64_t id, std::int64_t position) = 0;

  // A row that another read is filling in is read past the cache.
  virtual void bypass(Slot /*slot*/, std::int64_t /*position*/) {}

  virtual void end(const Slot* /*held*/, std::size_t /*num_held*/) {}

  // Nobody holds them any more.
  virtual void release(const Slot* /*slots*/, std::size_t /*num_slots*/) {}

  // The row in a slot that nobody holds is gone, for another reason than that it was a victim.
  virtual void remove(Slot slot) = 0;

  virtual void expect(const std::int64_t* /*ids*/, std::size_t /*num_ids*/) { refuse("expect"); }
  virtual void expect_nothing() { refuse("expect_nothing"); }
  virtual std::size_t num_expected() const { return 0; }

  virtual std::size_t num_bytes() const = 0;

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw InputError(std::string(what) +
                     ": this policy does not look ahead; make the cache with policy \"look-ahead\"");
  }
};

}  // namespace headrace
