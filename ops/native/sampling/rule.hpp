// The rule by which one hop picks in-edges of its destinations.
#pragma once

#include <cstdint>
#include <limits>

namespace headrace {

struct Rule {
  enum class Kind {
    kNeighbor,             // fanout distinct edges
    kNeighborReplacement,  // fanout independent draws
    kLatest,               // the last fanout edges, which are the latest where rows are sorted by time
    kLaborExact,           // the fanout edges with the smallest variates of their sources
    kLaborPoisson,         // each edge whose source's variate is below the wanted probability
    kLaborImportance,      // as kLaborPoisson, with probabilities that all destinations of the hop agree on
    kLadies,               // all edges from fanout sources drawn for the whole hop
    kLadiesPoisson,        // as kLadies, each source on its own, fanout of them on average
  };

  static constexpr std::int64_t kAll = -1;
  static constexpr std::int64_t kUntilConverged = -1;
  static constexpr std::int64_t kMostRounds = 1000;  // a call must end, and by then rounds change nothing any more

  Kind kind;
  std::int64_t fanout;
  std::int64_t rounds = 0;  // of kLaborImportance
  bool by_weight = false;   // reads the edges' weights

  bool takes_all() const { return fanout == kAll; }
  std::uint64_t limit() const {
    return takes_all() ? std::numeric_limits<std::uint64_t>::max() : static_cast<std::uint64_t>(fanout);
  }

  // Whether the picks of a row depend on the other rows of the hop.
  bool is_layer_wise() const { return of_kind().layer_wise; }
  // Whether edges are drawn destination by destination.
  bool draws_edges() const { return !takes_all() && of_kind().draws_edges; }
  // Whether edges are picked by variates of their own, which parallel edges share with no other (parallel_edges.hpp).
  bool has_edge_variates() const { return !takes_all() && of_kind().has_edge_variates; }
  // Whether a row that is not empty has as many picks as are asked for, even if it has fewer edges.
  bool replaces() const { return !takes_all() && kind == Kind::kNeighborReplacement; }

 private:
  struct Traits {
    bool layer_wise;
    bool draws_edges;
    bool has_edge_variates;
  };

  constexpr Traits of_kind() const {
    switch (kind) {
      case Kind::kNeighbor:
      case Kind::kNeighborReplacement:
        return {false, true, false};
      case Kind::kLatest:
        return {false, false, false};
      case Kind::kLaborExact:
      case Kind::kLaborPoisson:
        return {false, false, true};
      case Kind::kLaborImportance:
        return {true, false, true};
      case Kind::kLadies:
      case Kind::kLadiesPoisson:
        return {true, false, false};
    }
    return {};
  }
};

}  // namespace headrace
