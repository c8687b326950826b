// The samplers that read weights.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

template <class Index>
void sample_weighted(const HopCall<Index>& call);

template <class Index>
void sample_weighted_replacement(const HopCall<Index>& call);

// LABOR-0, exact and Poisson.
template <class Index>
void sample_labor_weighted(const HopCall<Index>& call);

}  // namespace headrace
