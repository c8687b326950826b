// Aggregations on several threads and in two calls at once, on rows of which one has more edges than all others.
#include "aggregate.hpp"

#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "aggregate/attention.hpp"
#include "aggregate/sddmm.hpp"
#include "aggregate/spmm.hpp"
#include "aggregate/spmm_extreme.hpp"

namespace {

constexpr std::size_t kNumRows = 3000;
constexpr std::size_t kHeads = 3;
constexpr std::size_t kWidth = 24;

std::vector<float> drawn(std::mt19937& random, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random() % 1000) / 100.0F;
  return values;
}

struct Inputs {
  std::vector<std::int64_t> indptr{0};
  std::vector<std::int32_t> indices;
  std::vector<float> x, scores, weights, gradients;

  Inputs() {
    std::mt19937 random(1);
    for (std::size_t i = 0; i < kNumRows; ++i) {
      const std::size_t degree = i == 7 ? 20000 : 1 + random() % 20;
      for (std::size_t k = 0; k < degree; ++k) indices.push_back(static_cast<std::int32_t>(random() % kNumRows));
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
    x = drawn(random, kNumRows * kWidth);
    scores = drawn(random, kNumRows * kHeads);
    weights = drawn(random, indices.size() * kHeads);
    gradients = drawn(random, kNumRows * kWidth);
  }

  headrace::EdgeRows<std::int32_t> rows() const {
    return {indptr.data(), kNumRows, indices.data(), indices.size(), kNumRows, nullptr, indices.size()};
  }
};

// All that one thread or several compute.
std::vector<std::vector<float>> aggregated(const Inputs& inputs, int num_threads) {
  const std::size_t num_edges = inputs.indices.size();
  std::vector<float> sums(kNumRows * kWidth), largest(sums.size()), products(num_edges * kHeads);
  std::vector<std::int64_t> winners(sums.size());
  const auto rows = inputs.rows();
  const float* const x = inputs.x.data();
  headrace::spmm<float>(rows, {x, kWidth, inputs.weights.data(), kHeads, sums.data(), nullptr, true}, num_threads);
  headrace::spmm_extreme<float>(rows, {x, kWidth, nullptr, 1, largest.data(), winners.data(), true, true, true},
                                num_threads);
  headrace::sddmm<float>(rows, {x, x, kWidth, kHeads, nullptr, products.data()}, num_threads);
  headrace::AttentionScores<float> scores{};
  scores.heads = kHeads;
  scores.source = scores.destination = inputs.scores.data();
  scores.edge = inputs.weights.data();
  scores.slope = 0.2F;
  scores.threshold = 1U << 30;
  scores.kept_scale = 1.5F;
  std::vector<float> top(kNumRows * kHeads), totals(top.size()), out(sums.size());
  headrace::attend<float>(rows, scores, {top.data(), totals.data(), out.data(), x, kWidth, true, true}, num_threads);
  // The rows stand in for transposed ones too: what counts here is who writes where.
  std::vector<float> by_destination(top.size()), by_edge(products.size()), by_source(top.size()), by_x(sums.size());
  const headrace::AttentionGradients<float> gradients{
      top.data(),     totals.data(),    x,          out.data(), inputs.gradients.data(), kWidth, by_destination.data(),
      by_edge.data(), by_source.data(), by_x.data()};
  headrace::attend_backward_destinations(rows, scores, gradients, num_threads);
  headrace::attend_backward_sources(rows, scores, gradients, num_threads);
  return {sums, largest, products, out, totals, by_destination, by_edge, by_source, by_x};
}

}  // namespace

void aggregate_rows() {
  constexpr int kNumThreads = 3;
  const Inputs inputs;
  const auto expected = aggregated(inputs, 1);
  std::vector<std::vector<float>> found[2];
  std::vector<std::thread> callers;
  for (auto& slot : found) callers.emplace_back([&] { slot = aggregated(inputs, kNumThreads); });
  for (std::thread& caller : callers) caller.join();
  if (found[0] == expected && found[1] == expected) return;
  std::fprintf(stderr, "aggregation: threads change the outcome\n");
  std::exit(1);
}
