// Which function samples by which rule. A new rule is a kind, a function and a line in registry.cpp.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

template <class Index>
using Sampler = void (*)(const HopCall<Index>&);

template <class Index>
Sampler<Index> sampler_of(Rule rule);

}  // namespace headrace
