// Sums whose bits do not depend on who adds: all threads of a group add the same terms in the same order. So a sum from
// left to right is no faster for a longer row by a block, but its terms are: each thread makes its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "group.cuh"

namespace headrace {

constexpr std::int64_t kSumBlock = 256;  // of ops/native/layerwise/ordered_sum.hpp

// Call visit(lane, value) with what each of the first `count` threads of a group has, in their order; all do. Values
// are passed on in shared memory, where one load takes the place of a shuffle for each half of each number.
template <class Group, class Value, class Visit>
void visit_lanes(const Group& group, const Value& own, std::int64_t count, const Visit& visit) {
  constexpr std::size_t kWords = sizeof(Value) / sizeof(double);
  __shared__ double values[Group::kPerBlock][Group::kThreads][kWords];
  std::memcpy(values[group.in_block][group.rank], &own, sizeof own);
  group.sync();
  for (int lane = 0; lane < Group::kThreads && lane < count; ++lane) {
    Value value;
    std::memcpy(&value, values[group.in_block][lane], sizeof value);
    visit(lane, value);
  }
  group.sync();  // before the next call writes
}

// term(0) + ... + term(count - 1) from left to right, each term made by one thread.
template <class Value, class Group, class Term>
Value sum_in_order(const Group& group, std::int64_t count, const Term& term) {
  Value sum{};
  for (std::int64_t begin = 0; begin < count; begin += Group::kThreads) {
    const std::int64_t i = begin + group.rank;
    const Value own = i < count ? term(i) : Value{};
    visit_lanes(group, own, count - begin, [&](int /*lane*/, const Value& value) { sum += value; });
  }
  return sum;
}

// Twin of ordered_sum: blocks of 256 terms from left to right, then the blocks from left to right. Where there are
// several blocks, each thread adds one up.
template <class Value, class Group, class Term>
Value ordered_sum(const Group& group, std::int64_t count, const Term& term) {
  if (count <= kSumBlock) return sum_in_order<Value>(group, count, term);
  const std::int64_t num_blocks = (count + kSumBlock - 1) / kSumBlock;
  return sum_in_order<Value>(group, num_blocks, [&](std::int64_t block) {
    const std::int64_t first = block * kSumBlock;
    const std::int64_t last = first + kSumBlock < count ? first + kSumBlock : count;
    Value sum{};
    for (std::int64_t i = first; i < last; ++i) sum += term(i);
    return sum;
  });
}

}  // namespace headrace
