#include "partition/owners.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "core/hash_owner.hpp"
#include "core/id_range.hpp"

namespace headrace {

void hash_owners(const std::int64_t* ids, std::size_t num_ids, std::uint32_t num_parts, std::int32_t* owners) {
  for (std::size_t i = 0; i < num_ids; ++i) owners[i] = hash_owner(ids[i], num_parts);
}

namespace {

// Ids are taken from so many chunks in turn, each with counters of its own: an increment waits for the one before it
// where both are of one part, which they often are.
constexpr std::size_t kChunks = 2;

template <class Step>
void for_each_in_turn(std::size_t count, const Step& step) {
  const std::size_t each = count / kChunks;
  for (std::size_t i = 0; i < each; ++i) {
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) step(chunk, chunk * each + i);
  }
  for (std::size_t i = kChunks * each; i < count; ++i) step(kChunks - 1, i);
}

void check_owners(const std::int32_t* owners, std::size_t num_ids, std::size_t num_parts) {
  const std::size_t i = first_out_of_range(owners, 0, num_ids, num_parts);
  if (i == num_ids) return;
  throw InputError("group_by_owner: owners[" + std::to_string(i) + "] = " + std::to_string(owners[i]) +
                   " is no part: expected 0 <= owner < num_parts = " + std::to_string(num_parts));
}

}  // namespace

void group_by_owner(const std::int64_t* ids, const std::int32_t* owners, std::size_t num_ids, std::size_t num_parts,
                    std::size_t first, std::int64_t* grouped, std::int64_t* places, std::int64_t* counts) {
  check_owners(owners, num_ids, num_parts);
  Buffer<std::int64_t> next(num_parts * kChunks);  // the counters of each chunk, then where its next ids go
  std::fill(next.data(), next.data() + next.size(), 0);
  for_each_in_turn(num_ids, [&](std::size_t chunk, std::size_t i) {
    ++next[chunk * num_parts + static_cast<std::size_t>(owners[i])];
  });
  std::int64_t sum = 0;
  const auto place = [&](std::size_t part) {
    counts[part] = -sum;
    for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
      sum += std::exchange(next[chunk * num_parts + part], sum);
    }
    counts[part] += sum;
  };
  place(first);
  for (std::size_t part = 0; part < num_parts; ++part) {
    if (part != first) place(part);
  }
  for_each_in_turn(num_ids, [&](std::size_t chunk, std::size_t i) {
    const std::int64_t at = next[chunk * num_parts + static_cast<std::size_t>(owners[i])]++;
    places[i] = at;
    if (ids != nullptr) grouped[at] = ids[i];
  });
}

}  // namespace headrace
