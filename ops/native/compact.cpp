#include "compact.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "errors.hpp"
#include "prefetch.hpp"

namespace headrace {
namespace {

// Open addressing with linear probing, at most half full. Values are places in the list of ids, -1 marks a free slot.
class IdTable {
 public:
  explicit IdTable(std::size_t expected) { allocate(expected); }

  void prefetch(std::int64_t id) const { prefetch_write(slots_.data() + home(id)); }

  std::int64_t find_or_insert(std::int64_t id, std::int64_t fresh) {
    for (std::size_t i = home(id);; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      if (slot.place == kFree) {
        slot = {id, fresh};
        if (++used_ * 2 > slots_.size()) grow();
        return fresh;
      }
      if (slot.id == id) return slot.place;
    }
  }

 private:
  struct Slot {
    std::int64_t id;
    std::int64_t place;
  };
  static constexpr std::int64_t kFree = -1;

  std::size_t home(std::int64_t id) const {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the high bits of the product mix best
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id) * kGolden >> shift_);
  }

  void allocate(std::size_t expected) {
    unsigned bits = 4;
    while (std::size_t{1} << bits < expected * 2) ++bits;
    slots_ = Buffer<Slot>(std::size_t{1} << bits);
    std::fill(slots_.data(), slots_.data() + slots_.size(), Slot{0, kFree});
    mask_ = slots_.size() - 1;
    shift_ = 64 - bits;
  }

  void grow() {
    Buffer<Slot> old = std::move(slots_);
    allocate(old.size() * 2);
    for (std::size_t k = 0; k < old.size(); ++k) {
      if (old[k].place == kFree) continue;
      std::size_t i = home(old[k].id);
      while (slots_[i].place != kFree) i = (i + 1) & mask_;
      slots_[i] = old[k];
    }
  }

  Buffer<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

template <class Index>
Buffer<std::int64_t> compact(const std::int64_t* seen, std::size_t num_seen, const Index* values,
                             std::size_t num_values, Index* local) {
  IdTable table(num_seen + num_values / 4);
  Buffer<std::int64_t> ids;
  ids.ensure_spare(num_seen + num_values / 4);
  for (std::size_t i = 0; i < num_seen; ++i) {
    if (i + kPrefetchDistance < num_seen) table.prefetch(seen[i + kPrefetchDistance]);
    const auto fresh = static_cast<std::int64_t>(i);
    if (const std::int64_t place = table.find_or_insert(seen[i], fresh); place != fresh) {
      throw InputError("compact: seen[" + std::to_string(place) + "] and seen[" + std::to_string(i) + "] are both " +
                       std::to_string(seen[i]) + "; expected unique ids, as unique_and_inverse returns them");
    }
    ids.push_back(seen[i]);
  }
  for (std::size_t i = 0; i < num_values; ++i) {
    if (i + kPrefetchDistance < num_values) table.prefetch(values[i + kPrefetchDistance]);
    const auto fresh = static_cast<std::int64_t>(ids.size());
    const std::int64_t place = table.find_or_insert(values[i], fresh);
    if (place == fresh) ids.push_back(values[i]);
    if (place > std::numeric_limits<Index>::max()) {
      throw InputError("compact: more ids than a local id of " + std::to_string(sizeof(Index) * 8) +
                       " bits can number; pass int64 neighbors");
    }
    local[i] = static_cast<Index>(place);
  }
  return ids;
}

template Buffer<std::int64_t> compact<std::int32_t>(const std::int64_t*, std::size_t, const std::int32_t*, std::size_t,
                                                    std::int32_t*);
template Buffer<std::int64_t> compact<std::int64_t>(const std::int64_t*, std::size_t, const std::int64_t*, std::size_t,
                                                    std::int64_t*);

}  // namespace headrace
