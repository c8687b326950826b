#include "weighted/sample_weighted.hpp"

#include "sampling/draw_limit.hpp"
#include "sampling/hop_loop.hpp"
#include "sampling/parallel_edges.hpp"
#include "weighted/pick_labor_weighted.hpp"
#include "weighted/pick_weighted.hpp"
#include "weighted/pick_weighted_replacement.hpp"

namespace headrace {

template <class Index>
void sample_weighted(const HopCall<Index>& call) {
  sample_with(call, [&](const HopGraph<Index>& graph, const VariateKeys& keys) {
    return WeightedPicker(graph.weights, keys.key, call.rule.limit());
  });
}

template <class Index>
void sample_weighted_replacement(const HopCall<Index>& call) {
  if (call.rule.takes_all()) return sample_weighted(call);
  refuse_too_many_draws(call);
  sample_with(call, [&](const HopGraph<Index>& graph, const VariateKeys& keys) {
    return WeightedReplacementPicker(graph.weights, keys.key, call.rule.limit());
  });
}

template <class Index>
void sample_labor_weighted(const HopCall<Index>& call) {
  const bool exact = call.rule.kind == Rule::Kind::kLaborExact;
  sample_with(call, [&](const HopGraph<Index>& graph, const VariateKeys& keys) {
    return LaborWeightedPicker<Index>(graph.csc.indices, graph.weights, keys, call.rule.limit(), exact,
                                      RowRepeats<Index>(graph));
  });
}

template void sample_weighted<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_weighted<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_weighted_replacement<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_weighted_replacement<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_labor_weighted<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_labor_weighted<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
