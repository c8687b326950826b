// How much room to make for the picks of a hop, of which only those of a first chunk are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace headrace {

// Rows of a hop that are still to come, none of which has more than a limit of picks (but where a rule picks whole
// rows).
class RowsToCome {
 public:
  RowsToCome() = default;
  RowsToCome(std::size_t num_dst, std::uint64_t limit) : num_dst_(num_dst), limit_(limit) {}

  // Take a chunk of `num_dst` rows and `num_edges` edges. Returns for how many edges to make room if they do not fit:
  // for as many a row again and half as many, as it takes longer to move them later than to leave room unused, but for
  // no more than the limit.
  std::size_t take(std::size_t num_dst, std::size_t num_edges) {
    num_dst_ -= std::min(num_dst_, num_dst);
    const double in_row = 1.5 * static_cast<double>(num_edges) / static_cast<double>(std::max<std::size_t>(num_dst, 1));
    const double to_come = std::min(in_row, static_cast<double>(limit_)) * static_cast<double>(num_dst_);
    return num_edges + static_cast<std::size_t>(std::min(to_come, static_cast<double>(kMost)));
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 24;  // a first chunk of hubs says little

  std::size_t num_dst_ = 0;
  std::uint64_t limit_ = 0;
};

}  // namespace headrace
