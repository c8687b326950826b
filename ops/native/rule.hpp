// The rule by which one hop picks in-edges of a destination.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headrace {

struct Rule {
  enum class Kind {
    kNeighbor,             // fanout distinct edges
    kNeighborReplacement,  // fanout independent draws
    kLaborExact,           // the fanout edges with the smallest variates of their sources
    kLaborPoisson,         // each edge whose source's variate is below the wanted probability
  };

  static constexpr std::int64_t kAll = -1;

  Kind kind;
  std::int64_t fanout;

  bool takes_all() const { return fanout == kAll; }
  std::uint64_t limit() const {
    return takes_all() ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(fanout);
  }
};

}  // namespace headrace
