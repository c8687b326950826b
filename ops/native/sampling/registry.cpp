#include "sampling/registry.hpp"

#include "core/errors.hpp"
#include "layerwise/layer_hop.hpp"
#include "sampling/sample_labor.hpp"
#include "sampling/sample_uniform.hpp"
#include "weighted/sample_weighted.hpp"

namespace headrace {
namespace {

template <class Index>
struct Entry {
  Rule::Kind kind;
  Sampler<Index> plain;
  Sampler<Index> weighted;
};

template <class Index>
constexpr Entry<Index> kEntries[] = {
    {Rule::Kind::kNeighbor, sample_uniform<Index>, sample_weighted<Index>},
    {Rule::Kind::kNeighborReplacement, sample_uniform_replacement<Index>, sample_weighted_replacement<Index>},
    {Rule::Kind::kLatest, sample_latest<Index>, sample_latest<Index>},
    {Rule::Kind::kLaborExact, sample_labor_exact<Index>, sample_labor_weighted<Index>},
    {Rule::Kind::kLaborPoisson, sample_labor_poisson<Index>, sample_labor_weighted<Index>},
    {Rule::Kind::kLaborImportance, sample_labor_importance<Index>, sample_labor_importance<Index>},
    {Rule::Kind::kLadies, sample_ladies<Index>, sample_ladies<Index>},
    {Rule::Kind::kLadiesPoisson, sample_ladies<Index>, sample_ladies<Index>},
};

}  // namespace

template <class Index>
Sampler<Index> sampler_of(Rule rule) {
  for (const Entry<Index>& entry : kEntries<Index>) {
    if (entry.kind == rule.kind) return rule.by_weight ? entry.weighted : entry.plain;
  }
  throw InputError("no sampler is registered for this rule");
}

template Sampler<std::int32_t> sampler_of<std::int32_t>(Rule);
template Sampler<std::int64_t> sampler_of<std::int64_t>(Rule);

}  // namespace headrace
