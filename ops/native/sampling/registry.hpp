// Which function samples by which rule. CONTRIBUTING.md lists where a new rule has to be known.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

template <class Index>
using Sampler = void (*)(const HopCall<Index>&);

template <class Index>
Sampler<Index> sampler_of(Rule rule);

}  // namespace headrace
