#include "sampling/sample_uniform.hpp"

#include "sampling/draw_limit.hpp"
#include "sampling/hop_loop.hpp"
#include "sampling/pick_uniform.hpp"

namespace headrace {

template <class Index>
void sample_all(const HopCall<Index>& call) {
  sample_with(call, [](const HopGraph<Index>& /*graph*/, const VariateKeys& /*keys*/) { return AllPicker(); });
}

template <class Index>
void sample_uniform(const HopCall<Index>& call) {
  if (call.rule.takes_all()) return sample_all(call);
  sample_with(call, [&](const HopGraph<Index>& /*graph*/, const VariateKeys& keys) {
    return UniformPicker(keys.key, call.rule.limit());
  });
}

template <class Index>
void sample_uniform_replacement(const HopCall<Index>& call) {
  if (call.rule.takes_all()) return sample_all(call);
  refuse_too_many_draws(call);
  sample_with(call, [&](const HopGraph<Index>& /*graph*/, const VariateKeys& keys) {
    return UniformReplacementPicker(keys.key, call.rule.limit());
  });
}

template <class Index>
void sample_latest(const HopCall<Index>& call) {
  sample_with(call, [&](const HopGraph<Index>& /*graph*/, const VariateKeys& /*keys*/) {
    return LatestPicker(call.rule.limit());
  });
}

template void sample_all<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_all<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_latest<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_latest<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_uniform<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_uniform<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_uniform_replacement<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_uniform_replacement<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
