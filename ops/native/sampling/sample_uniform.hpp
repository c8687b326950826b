// The samplers that need nothing but in-degrees.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

// All in-edges.
template <class Index>
void sample_all(const HopCall<Index>& call);

template <class Index>
void sample_uniform(const HopCall<Index>& call);

template <class Index>
void sample_uniform_replacement(const HopCall<Index>& call);

// The last in-edges of each row.
template <class Index>
void sample_latest(const HopCall<Index>& call);

}  // namespace headrace
