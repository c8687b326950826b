// The terms of attention of one edge and head, each rounded in the written order: CPU and GPU compute them from here.
#pragma once

#include <limits>

#include "aggregate/exponential.hpp"
#include "core/inline.hpp"

namespace headrace {

// The score of an edge that does not count, and the largest one where there is no edge.
template <class Value>
HEADRACE_INLINE Value no_score() {
  return -std::numeric_limits<Value>::infinity();
}

// What a leaky rectifier multiplies by. A score of -inf stays what it is: with a slope of 0 it would be NaN.
template <class Value>
HEADRACE_INLINE Value leak(Value plain, Value slope) {
  return plain > 0 || plain == no_score<Value>() ? Value{1} : slope;
}

// exp(score - largest): 0 for a score of -inf, also where that is the largest one.
template <class Value>
HEADRACE_INLINE Value exponential(Value score, Value largest) {
  return exp_of_negative(score == no_score<Value>() ? score : score - largest);
}

// The gradient of a score before its rectifier: its attention times (what dropout leaves of the dot product of the
// source's row and the gradient of the destination's, less what all edges of the row have in common).
template <class Value>
HEADRACE_INLINE Value score_gradient(Value plain, Value slope, Value attention, Value product, Value share) {
  return attention * (product - share) * leak(plain, slope);
}

}  // namespace headrace
