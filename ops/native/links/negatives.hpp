// Negative destinations: nodes that a pair's source is not joined with, or is by chance alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/buffer.hpp"
#include "graphs/graph.hpp"

namespace headrace {

// The nodes first, ..., last - 1, and how likely each is.
struct NegativeNodes {
  enum class Law {
    kUniform,
    kInDegree,  // in proportion to the in-degree
    kWeight,    // in proportion to weights, of which sums[i] is the sum up to and including node first + i
  };

  std::int64_t first;
  std::int64_t last;
  Law law;
  const double* sums = nullptr;  // [last - first]
  // [size], the nodes in another order; sums are in that one then. With kUniform a node may be there several times, and
  // is drawn that more often.
  const std::int64_t* order = nullptr;
  std::size_t size;  // entries of the order, or last - first
};

// Negatives drawn one by one before all that are left are listed.
constexpr std::size_t kNegativeTrials = 64;

// counts[i] of them for pair i, one pair behind the other. Pair i draws from stream first_pair + i under `key`: a
// bounded integer names a node (kUniform), or an in-edge of one of them (kInDegree), a variate a place among the sums.
//
// With `sources` [num_pairs] a node that has an edge from sources[i] is drawn again, up to kNegativeTrials times, and
// then the draw is among all nodes that have none, in the same way: every one of them is as likely as the law says.
// With `prefix` [num_pairs], which kInDegree does not take, pair i draws from the first prefix[i] nodes of the order
// alone. Throws InputError for a pair that has no such node, or none of positive weight.
template <class Index>
Buffer<std::int64_t> draw_negatives(const CscView<Index>& csc, const NegativeNodes& nodes, const std::int64_t* counts,
                                    std::size_t num_pairs, const std::int64_t* sources, const std::int64_t* prefix,
                                    std::uint64_t first_pair, std::uint64_t key, int num_threads);

}  // namespace headrace
