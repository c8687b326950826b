#include "sampling/sample_labor.hpp"

#include "sampling/hop_loop.hpp"
#include "sampling/parallel_edges.hpp"
#include "sampling/pick_labor.hpp"
#include "sampling/sample_uniform.hpp"

namespace headrace {
namespace {

template <template <class> class Picker, class Index>
void sample_labor(const HopCall<Index>& call) {
  if (call.rule.takes_all()) return sample_all(call);
  sample_with(call, [&](const HopGraph<Index>& graph, const VariateKeys& keys) {
    return Picker<Index>(graph.csc.indices, keys, call.rule.limit(), RowRepeats<Index>(graph));
  });
}

}  // namespace

template <class Index>
void sample_labor_exact(const HopCall<Index>& call) {
  sample_labor<LaborExactPicker>(call);
}

template <class Index>
void sample_labor_poisson(const HopCall<Index>& call) {
  sample_labor<LaborPoissonPicker>(call);
}

template void sample_labor_exact<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_labor_exact<std::int64_t>(const HopCall<std::int64_t>&);
template void sample_labor_poisson<std::int32_t>(const HopCall<std::int32_t>&);
template void sample_labor_poisson<std::int64_t>(const HopCall<std::int64_t>&);

}  // namespace headrace
