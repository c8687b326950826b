// LABOR-0 without weights: exact and Poisson.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

template <class Index>
void sample_labor_exact(const HopCall<Index>& call);

template <class Index>
void sample_labor_poisson(const HopCall<Index>& call);

}  // namespace headrace
