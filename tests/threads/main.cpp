// Runs samplers, gather and scatter, for a build with ThreadSanitizer (`make tsan`): every rule, on several threads and
// in several calls at once, and the team of threads itself. Fails where the outcome differs from that of one thread.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fused.hpp"
#include "gather.hpp"
#include "scatter.hpp"
#include "team.hpp"

namespace {

using headrace::Expand;
using headrace::FusedSampler;
using headrace::HopGraph;
using headrace::HopSpec;
using headrace::Rule;
using headrace::Sampled;

constexpr std::size_t kNumNodes = 20000;
constexpr std::size_t kNumSeeds = 6000;  // more than one thread looks at in a hop
constexpr int kNumThreads = 3;

struct Case {
  const char* name;
  Rule rule;
};

constexpr Case kCases[] = {
    {"neighbor", {Rule::Kind::kNeighbor, 5}},
    {"neighbor, replacement", {Rule::Kind::kNeighborReplacement, 5}},
    {"LABOR, exact", {Rule::Kind::kLaborExact, 5}},
    {"LABOR, Poisson", {Rule::Kind::kLaborPoisson, 5}},
    {"LABOR, one round", {Rule::Kind::kLaborImportance, 5, 1}},
    {"LABOR, converged", {Rule::Kind::kLaborImportance, 5, Rule::kUntilConverged}},
    {"LADIES", {Rule::Kind::kLadies, 4000}},
    {"PLADIES", {Rule::Kind::kLadiesPoisson, 4000}},
    {"all", {Rule::Kind::kNeighbor, Rule::kAll}},
};

// Of each vertex's in-edges a few, of every tenth many, of some none.
template <class Index>
struct RandomGraph {
  std::vector<std::int64_t> indptr{0};
  std::vector<Index> indices;
  std::vector<float> weights;
  std::vector<std::int64_t> edge_ids;

  RandomGraph() {
    std::mt19937 random(1);
    for (std::size_t v = 0; v < kNumNodes; ++v) {
      const std::size_t degree = random() % (v % 10 == 0 ? 300 : 20);
      for (std::size_t i = 0; i < degree; ++i) {
        edge_ids.push_back(7 * static_cast<std::int64_t>(indices.size()));
        indices.push_back(static_cast<Index>(random() % kNumNodes));
        weights.push_back(static_cast<float>(random() % 8));
      }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
  }
};

template <class T>
bool same(const headrace::Buffer<T>& one, const headrace::Buffer<T>& other) {
  return one.size() == other.size() && std::equal(one.data(), one.data() + one.size(), other.data());
}

template <class Index>
bool same(const Sampled<Index>& one, const Sampled<Index>& other) {
  bool equal = same(one.n_id, other.n_id) && one.blocks.size() == other.blocks.size();
  for (std::size_t i = 0; equal && i < one.blocks.size(); ++i) {
    const auto& a = one.blocks[i];
    const auto& b = other.blocks[i];
    equal = same(a.indptr, b.indptr) && same(a.indices, b.indices) && same(a.edge_ids, b.edge_ids) &&
            same(a.weights, b.weights);
  }
  return equal;
}

void check(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: threads change the outcome\n", what.c_str());
  std::exit(1);
}

// How a graph is read, and what is asked for.
struct Variant {
  const char* name;
  bool weighted;
  bool all_positive;
  Expand expand;
  bool stored_edge_ids;
  bool want_edge_ids;
  std::size_t most_slots;  // of the vertex map, which is a table if there are fewer than vertices
};

constexpr Variant kVariants[] = {
    {"plain", false, false, Expand::kAll, false, true, kNumNodes},
    {"new vertices, edge ids that are stored", false, false, Expand::kNew, true, true, kNumNodes},
    {"no edge ids, vertices in a table", false, false, Expand::kAll, false, false, 0},
    {"by weight", true, false, Expand::kAll, true, true, kNumNodes},
    {"by positive weight, new vertices", true, true, Expand::kNew, false, false, kNumNodes},
};

// Several calls at once, the first of which makes what all of them share.
template <class Index>
void sample_at_once(RandomGraph<Index> random, const Case& one, const Variant& variant) {
  if (variant.all_positive) {
    for (float& weight : random.weights) weight += 1.0F;
  }
  HopGraph<Index> graph;
  graph.csc = {random.indptr.data(), kNumNodes, random.indices.data(), random.indices.size()};
  if (variant.weighted) graph.weights.narrow = random.weights.data();
  if (variant.stored_edge_ids) graph.edge_ids.wide = random.edge_ids.data();
  std::vector<std::int64_t> seeds(kNumSeeds);
  for (std::size_t i = 0; i < kNumSeeds; ++i) seeds[i] = static_cast<std::int64_t>(3 * i);
  const std::vector<HopSpec> hops{{one.rule, 1}, {one.rule, 2}};
  const auto sample = [&](FusedSampler<Index>& sampler, int num_threads) {
    return sampler.sample(seeds.data(), seeds.size(), hops, variant.expand, variant.want_edge_ids, num_threads);
  };
  FusedSampler<Index> alone(graph, 1, variant.most_slots);
  const auto expected = sample(alone, 1);
  FusedSampler<Index> shared(graph, 1, variant.most_slots);
  bool equal[2];
  std::vector<std::thread> callers;
  for (bool& slot : equal) {
    callers.emplace_back([&] { slot = same(expected, sample(shared, kNumThreads)); });
  }
  for (std::thread& caller : callers) caller.join();
  check(equal[0] && equal[1], std::string(one.name) + ", " + variant.name);
}

void move_rows() {
  constexpr std::size_t kWidth = 50;
  std::mt19937 random(2);
  std::vector<float> table(kNumNodes * kWidth);
  for (float& value : table) value = static_cast<float>(random() % 100);
  std::vector<std::int64_t> ids(3 * kNumNodes);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % kNumNodes);
  const std::size_t row_bytes = kWidth * sizeof(float);
  const headrace::RowSource source{reinterpret_cast<const char*>(table.data()), kNumNodes,
                                   static_cast<std::ptrdiff_t>(row_bytes), row_bytes};
  std::vector<std::vector<float>> rows, sums;
  for (const int num_threads : {1, kNumThreads}) {
    std::vector<float> out(ids.size() * kWidth);
    headrace::gather_rows(source, ids.data(), ids.size(), {reinterpret_cast<char*>(out.data()), ids.size(), nullptr},
                          num_threads);
    std::vector<float> sum(table.size());
    headrace::scatter_add_rows(sum.data(), kNumNodes, kWidth, ids.data(), ids.size(), out.data(), num_threads);
    rows.push_back(std::move(out));
    sums.push_back(std::move(sum));
  }
  check(rows[0] == rows[1], "gather");
  check(sums[0] == sums[1], "scatter");
}

// Jobs of one team, some of which fail, and before some of which the helpers have gone to sleep.
void run_jobs() {
  constexpr std::size_t kNumJobs = 400;
  headrace::Team team(kNumThreads);
  for (std::size_t job = 0; job < kNumJobs; ++job) {
    if (job % 100 == 50) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (job + 1 == kNumJobs) team.expect_last();
    const std::size_t num_tasks = job + 1 == kNumJobs ? 500 : job % 23;
    const bool body_fails = job % 2 == 0;  // otherwise finishing does
    const std::size_t first_failure = job % 7 == 0 ? num_tasks / 2 : num_tasks;
    std::vector<std::size_t> made(num_tasks);
    std::vector<std::size_t> finished;
    std::string failure;
    try {
      team.run_in_order(
          num_tasks,
          [&](std::size_t task) {
            if (task >= first_failure && body_fails) throw std::runtime_error(std::to_string(task));
            made[task] = job + task;
          },
          [&](std::size_t task) {
            if (task >= first_failure) throw std::runtime_error(std::to_string(task));
            finished.push_back(made[task]);
          });
    } catch (const std::runtime_error& error) {
      failure = error.what();
    }
    check(failure == (first_failure < num_tasks ? std::to_string(first_failure) : ""), "first failure of a job");
    check(finished.size() == first_failure, "tasks finished of a job");
    for (std::size_t task = 0; task < finished.size(); ++task) check(finished[task] == job + task, "order of a job");
  }
  headrace::Team idle(kNumThreads);
  idle.start(2 * kNumThreads);  // and end without a job
}

}  // namespace

int main() {
  for (const Case& one : kCases) {
    for (const Variant& variant : kVariants) {
      sample_at_once(RandomGraph<std::int32_t>(), one, variant);
      sample_at_once(RandomGraph<std::int64_t>(), one, variant);
    }
    std::printf("%s\n", one.name);
  }
  move_rows();
  std::printf("rows\n");
  run_jobs();
  std::printf("jobs\n");
}
