// Draws and normalisation of GraphSAINT (arXiv 1907.04931).
#pragma once

#include <cstddef>
#include <cstdint>

#include "graphs/graph.hpp"

namespace headrace {

// sums[u] += in_degree(w)^-power over all edges u -> w, in CSC order; without self-loops when `skip_loops` is set.
template <class Index>
void sum_inverse_degrees(const CscView<Index>& graph, int power, bool skip_loops, double* sums);

// Draw i is the first entry of `sums`, running sums of weights, above a uniform variate (that of source node i in
// LABOR) times the total.
void draw_by_weight(const double* sums, std::size_t num_weights, std::uint64_t key, std::int64_t* out,
                    std::size_t num_draws, int num_threads);

// Draw i, a uniform one of `rows` and then a uniform one of its in-edges, on stream i: out[2i] is the source and
// out[2i + 1] the destination. Every row must have in-edges.
template <class Index>
void draw_edges(const CscView<Index>& graph, const std::int64_t* rows, std::size_t num_rows, std::uint64_t key,
                std::int64_t* out, std::size_t num_draws, int num_threads);

// How subgraphs come to hold nodes: by `num_draws` independent draws, each of which brings node v with
// probability touch[v]. Nodes are brought singly, or as the ends of an edge when `num_rows` is not 0: then every
// edge u -> v is drawn with probability 1 / (num_rows * degree[v]).
struct DrawLaw {
  const double* touch;         // [num_nodes] by local id
  const std::int64_t* degree;  // [num_nodes] in-degrees in the whole graph
  std::uint64_t num_draws;
  std::uint64_t num_rows;
};

// The weight of each edge u -> v of an induced subgraph: (in-degree of v in the subgraph) / (in-degree of v in the
// graph) * P(v) / P(u and v), probabilities of being in the subgraph. A plain mean of messages times these weights has
// the mean over all in-neighbours as its expectation, given v.
template <class Index>
void saint_weights(const CscView<Index>& subgraph, DrawLaw law, float* weights, int num_threads);

}  // namespace headrace
