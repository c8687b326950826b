// The rule by which one hop picks in-edges of its destinations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace headrace {

struct RuleTraits;

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
  bool is_layer_wise() const;
  // Whether edges are drawn destination by destination.
  bool draws_edges() const;
  // Whether edges are picked by variates of their own, which parallel edges share with no other (parallel_edges.hpp).
  bool has_edge_variates() const;
  // Whether a row that is not empty has as many picks as are asked for, even if it has fewer edges.
  bool replaces() const { return !takes_all() && kind == Kind::kNeighborReplacement; }

 private:
  const RuleTraits& of_kind() const;
};

// What holds of all rules of a kind, on the CPU and on a GPU.
struct RuleTraits {
  enum Trait : unsigned {
    kLayerWise = 1,        // the picks of a row depend on the other rows of the hop
    kDrawsEdges = 2,       // edges are drawn destination by destination
    kHasEdgeVariates = 4,  // edges are picked by variates of their own
    kReadsEdges = 8,       // without weights, too, it looks at the edges to choose from
    kIsBounded = 16,       // a row has no more picks than are asked for
    kTakesWeights = 32,
    kHasTwin = 64,  // on a GPU
  };

  Rule::Kind kind;
  const char* name;
  unsigned traits;

  constexpr bool has(Trait trait) const { return (traits & trait) != 0; }
};

// A new kind is a line here, at its place in Rule::Kind.
inline constexpr RuleTraits kRuleTraits[] = {
    {Rule::Kind::kNeighbor, "neighbor",
     RuleTraits::kDrawsEdges | RuleTraits::kIsBounded | RuleTraits::kTakesWeights | RuleTraits::kHasTwin},
    {Rule::Kind::kNeighborReplacement, "neighbor_replacement",
     RuleTraits::kDrawsEdges | RuleTraits::kIsBounded | RuleTraits::kTakesWeights | RuleTraits::kHasTwin},
    {Rule::Kind::kLatest, "latest", RuleTraits::kIsBounded | RuleTraits::kHasTwin},
    {Rule::Kind::kLaborExact, "labor_exact",
     RuleTraits::kHasEdgeVariates | RuleTraits::kReadsEdges | RuleTraits::kIsBounded | RuleTraits::kTakesWeights |
         RuleTraits::kHasTwin},
    {Rule::Kind::kLaborPoisson, "labor_poisson",
     RuleTraits::kHasEdgeVariates | RuleTraits::kReadsEdges | RuleTraits::kTakesWeights | RuleTraits::kHasTwin},
    {Rule::Kind::kLaborImportance, "labor_importance",
     RuleTraits::kLayerWise | RuleTraits::kHasEdgeVariates | RuleTraits::kReadsEdges | RuleTraits::kTakesWeights |
         RuleTraits::kHasTwin},
    {Rule::Kind::kLadies, "ladies", RuleTraits::kLayerWise | RuleTraits::kReadsEdges | RuleTraits::kTakesWeights},
    {Rule::Kind::kLadiesPoisson, "ladies_poisson",
     RuleTraits::kLayerWise | RuleTraits::kReadsEdges | RuleTraits::kTakesWeights},
};

inline const RuleTraits& Rule::of_kind() const { return kRuleTraits[static_cast<std::size_t>(kind)]; }
inline bool Rule::is_layer_wise() const { return of_kind().has(RuleTraits::kLayerWise); }
inline bool Rule::draws_edges() const { return !takes_all() && of_kind().has(RuleTraits::kDrawsEdges); }
inline bool Rule::has_edge_variates() const { return !takes_all() && of_kind().has(RuleTraits::kHasEdgeVariates); }

}  // namespace headrace
