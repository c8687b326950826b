// A fixed set of rows: none makes room.
#pragma once

#include "cache/policy.hpp"

namespace headrace {

class Fixed final : public Policy {
 public:
  void touch(const Slot* /*slots*/, const std::int64_t* /*positions*/, std::size_t /*num_slots*/) override {}
  Slot victim(std::int64_t /*id*/, std::int64_t /*position*/) override { return kNoSlot; }
  void insert(Slot /*slot*/, std::int64_t /*id*/, std::int64_t /*position*/) override {}
  void remove(Slot /*slot*/) override {}
  std::size_t num_bytes() const override { return 0; }
};

}  // namespace headrace
