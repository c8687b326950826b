#include "disk/read_plan.hpp"

#include <algorithm>

namespace headrace {
namespace {

bool by_row(const WantedRow& left, const WantedRow& right) {
  return left.row != right.row ? left.row < right.row : left.place < right.place;
}

ReadRange range_of(std::uint64_t begin, std::uint64_t end, std::size_t alignment) {
  const std::uint64_t offset = begin / alignment * alignment;
  const std::uint64_t bytes = (end - offset + alignment - 1) / alignment * alignment;
  return {offset, static_cast<std::size_t>(bytes), static_cast<std::size_t>(end - offset), 0, 0};
}

}  // namespace

template <class Id>
ReadPlan plan_reads(const RowLayout& layout, std::size_t alignment, std::size_t gap_bytes, const Id* ids,
                    std::size_t num_ids, const std::int64_t* places) {
  ReadPlan plan;
  plan.wanted.resize(num_ids);
  WantedRow* const wanted = plan.wanted.data();
  for (std::size_t i = 0; i < num_ids; ++i) {
    wanted[i] = {static_cast<std::uint64_t>(ids[i]), places == nullptr ? i : static_cast<std::uint64_t>(places[i])};
  }
  if (!std::is_sorted(wanted, wanted + num_ids, by_row)) std::sort(wanted, wanted + num_ids, by_row);
  for (std::size_t first = 0; first < num_ids;) {
    const std::uint64_t begin = layout.offset(wanted[first].row);
    std::uint64_t end = begin + layout.row_bytes;
    std::size_t last = first + 1;
    for (; last < num_ids; ++last) {
      const std::uint64_t next = layout.offset(wanted[last].row);
      const std::uint64_t next_end = next + layout.row_bytes;
      const bool repeated = next_end == end;
      const bool near = next <= end || next - end <= gap_bytes;
      if (!repeated && (!near || next_end - begin > kMostRangeBytes)) break;
      end = next_end;
    }
    ReadRange range = range_of(begin, end, alignment);
    range.first = first;
    range.last = last;
    plan.most_bytes = std::max(plan.most_bytes, range.bytes);
    plan.ranges.push_back(range);
    first = last;
  }
  return plan;
}

template ReadPlan plan_reads(const RowLayout&, std::size_t, std::size_t, const std::int32_t*, std::size_t,
                             const std::int64_t*);
template ReadPlan plan_reads(const RowLayout&, std::size_t, std::size_t, const std::int64_t*, std::size_t,
                             const std::int64_t*);

}  // namespace headrace
