#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "bindings/bindings.hpp"
#include "cache/cache_index.hpp"
#include "core/forks.hpp"

namespace headrace {
namespace {

// A look-up that ends without a word, as when Python was interrupted, has failed.
class BoundLookup {
 public:
  BoundLookup(CacheIndex& index, CacheLookup&& lookup) : index_(&index), lookup_(std::move(lookup)) {}
  BoundLookup(BoundLookup&& other) noexcept
      : index_(std::exchange(other.index_, nullptr)), lookup_(std::move(other.lookup_)) {}
  BoundLookup(const BoundLookup&) = delete;
  BoundLookup& operator=(const BoundLookup&) = delete;
  ~BoundLookup() {
    if (index_ != nullptr) index_->finish(lookup_, false);
  }

  void finish(bool filled) {
    if (index_ == nullptr) throw InputError("finish: the look-up is over; look up anew");
    std::exchange(index_, nullptr)->finish(lookup_, filled);
  }

  bool holds_slots() const { return index_ != nullptr && lookup_.forks == num_forks(); }
  CacheLookup& get() { return lookup_; }

 private:
  CacheIndex* index_;
  CacheLookup lookup_;
};

void make_index(CacheIndex* memory, CachePolicy policy, std::int64_t capacity, std::int64_t num_rows,
                const MaybeArray<std::int64_t>& fixed, const MaybeArray<std::uint8_t>& levels) {
  if (num_rows < 0 || capacity < 0 || capacity > num_rows || capacity >= kNoSlot) {
    throw InputError("CacheIndex: expected 0 <= capacity <= num_rows and capacity < 2**32 - 1, got " +
                     std::to_string(capacity) + " and " + std::to_string(num_rows));
  }
  const auto slots = static_cast<std::size_t>(capacity), rows = static_cast<std::size_t>(num_rows);
  if ((policy == CachePolicy::kStatic) != fixed.has_value()) {
    throw InputError("CacheIndex: ids are those of a static cache, which needs them");
  }
  if (fixed) check_length("ids", fixed->shape(0), slots, "slot");
  Buffer<std::uint8_t> copied;
  if (levels) {
    check_length("levels", levels->shape(0), rows, "row");
    copied = Buffer<std::uint8_t>::long_lived(rows);
    std::copy_n(levels->data(), rows, copied.data());
  }
  const nb::gil_scoped_release release;
  new (memory) CacheIndex(policy, slots, rows, data_or_null(fixed), std::move(copied));
}

BoundLookup look_up(CacheIndex& index, const InArray<std::int64_t>& ids) {
  return {index, unlocked([&] { return index.look_up(ids.data(), ids.shape(0)); })};
}

// An array of a look-up, which lives as long as that.
template <Buffer<std::int64_t> CacheLookup::* kArray>
OutArray<std::int64_t> array(BoundLookup& lookup) {
  Buffer<std::int64_t>& buffer = lookup.get().*kArray;
  if (buffer.size() == 0) buffer.ensure_spare(1);  // so that an empty array has an address too
  return OutArray<std::int64_t>(buffer.data(), {buffer.size()}, nb::find(lookup));
}

}  // namespace

void bind_cache(nb::module_& m) {
  nb::enum_<CachePolicy>(m, "CachePolicy")
      .value("STATIC", CachePolicy::kStatic)
      .value("LRU", CachePolicy::kLru)
      .value("CLOCK", CachePolicy::kClock)
      .value("S3_FIFO", CachePolicy::kS3Fifo)
      .value("SIEVE", CachePolicy::kSieve)
      .value("LOOK_AHEAD", CachePolicy::kLookAhead);
  nb::class_<BoundLookup>(m, "CacheLookup")
      .def_prop_ro("hit_slots", &array<&CacheLookup::hit_slots>)
      .def_prop_ro("hit_positions", &array<&CacheLookup::hit_positions>)
      .def_prop_ro("miss_ids", &array<&CacheLookup::miss_ids>)
      .def_prop_ro("miss_positions", &array<&CacheLookup::miss_positions>)
      .def_prop_ro("fill_slots", &array<&CacheLookup::fill_slots>)
      .def_prop_ro("fill_positions", &array<&CacheLookup::fill_positions>)
      .def_prop_ro("repeated_positions", &array<&CacheLookup::repeated_positions>)
      .def_prop_ro("repeat_positions", &array<&CacheLookup::repeat_positions>)
      .def_prop_ro("holds_slots", &BoundLookup::holds_slots)
      .def("finish", &BoundLookup::finish, "filled"_a, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<CacheIndex>(m, "CacheIndex")
      .def("__init__", &make_index, "policy"_a, "capacity"_a, "num_rows"_a, "fixed"_array = nb::none(),
           "levels"_array = nb::none())
      .def("look_up", &look_up, "ids"_array, nb::keep_alive<0, 1>())
      .def(
          "invalidate",
          [](CacheIndex& index, const InArray<std::int64_t>& ids) {
            unlocked([&] { index.invalidate(ids.data(), ids.shape(0)); });
          },
          "ids"_array)
      .def("invalidate_all", &CacheIndex::invalidate_all, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "expect",
          [](CacheIndex& index, const InArray<std::int64_t>& ids) {
            unlocked([&] { index.expect(ids.data(), ids.shape(0)); });
          },
          "ids"_array)
      .def("expect_nothing", &CacheIndex::expect_nothing, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("counts",
                   [](CacheIndex& index) {
                     const CacheCounts counts = index.counts();
                     return nb::make_tuple(counts.hits, counts.misses, counts.evictions, counts.bypasses,
                                           counts.invalidations);
                   })
      .def_prop_ro(
          "ids_in_slots", [](CacheIndex& index) { return to_numpy(index.ids_in_slots()); }, nb::rv_policy::automatic)
      .def_prop_ro("num_expected", &CacheIndex::num_expected)
      .def_prop_ro("num_bytes", &CacheIndex::num_bytes);
}

}  // namespace headrace
