// The rule by which one hop picks in-edges of a destination.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace headrace {

struct Rule {
  enum class Kind {
    kUniform,             // fanout distinct edges, all equally likely
    kUniformReplacement,  // fanout independent draws
    kLaborExact,          // the fanout edges with the smallest r_t
    kLaborPoisson,        // each edge with r_t <= fanout / degree
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
