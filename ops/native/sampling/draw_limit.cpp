#include "sampling/draw_limit.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>

#include "core/buffer.hpp"
#include "core/errors.hpp"
#include "sampling/segments.hpp"

namespace headrace {
namespace {

[[noreturn]] void refuse(std::uint64_t fanout, std::uint64_t num_rows) {
  throw InputError("sample_hop: a fanout of " + std::to_string(fanout) + " with replacement, for " +
                   std::to_string(num_rows) +
                   " nodes, is more draws than memory can hold; lower the fanout or the number of seeds");
}

}  // namespace

template <class Index>
void refuse_too_many_draws(const HopCall<Index>& call) {
  constexpr std::uint64_t kFew = std::uint64_t{1} << 26;
  const std::uint64_t fanout = call.rule.limit();
  if (call.frontier.size == 0 || fanout <= kFew / call.frontier.size) return;
  const SegmentFinder<Index> segment(call.graph, call.frontier);
  std::uint64_t num_rows = 0;
  for (std::size_t i = 0; i < call.frontier.size; ++i) num_rows += segment(i).row.degree == 0 ? 0 : 1;
  if (num_rows == 0) return;
  if (fanout > std::numeric_limits<std::size_t>::max() / num_rows) refuse(fanout, num_rows);
  try {
    const Buffer<Index> neighbors(static_cast<std::size_t>(num_rows * fanout));
  } catch (const std::bad_alloc&) {
    refuse(fanout, num_rows);
  }
}

template void refuse_too_many_draws<std::int32_t>(const HopCall<std::int32_t>&);
template void refuse_too_many_draws<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
