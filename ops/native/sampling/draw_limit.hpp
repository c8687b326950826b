// Draws with replacement may be any number: what memory cannot hold is refused before it is made.
#pragma once

#include "sampling/hop.hpp"

namespace headrace {

// Throws InputError. The rule is one with replacement; where draws are few nothing is counted.
template <class Index>
void refuse_too_many_draws(const HopCall<Index>& call);

}  // namespace headrace
