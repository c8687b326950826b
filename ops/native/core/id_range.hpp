// Ids that are out of range.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace headrace {

// Which of ids[begin], ..., ids[end - 1] is the first outside [0, bound); `end` if none is. `ids` is a pointer, or
// anything with places. That there are any is rare, so all are looked at for the largest first, without a branch.
template <class Ids>
std::size_t first_out_of_range(const Ids& ids, std::size_t begin, std::size_t end, std::size_t bound) {
  using Unsigned = std::make_unsigned_t<std::decay_t<decltype(ids[begin])>>;
  Unsigned largest = 0;  // a negative id is a huge unsigned one
  for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, static_cast<Unsigned>(ids[i]));
  if (begin == end || largest < bound) return end;
  std::size_t i = begin;
  while (static_cast<Unsigned>(ids[i]) < bound) ++i;
  return i;
}

}  // namespace headrace
