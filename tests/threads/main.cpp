// Runs samplers, gather, scatter, aggregations and caches, for a build with ThreadSanitizer (`make tsan`): every rule,
// on several threads and in several calls at once, and the pool of threads itself. Fails where the outcome differs from
// that of one thread.
#include <algorithm>
#include <atomic>
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

#include "aggregate.hpp"
#include "cache.hpp"
#include "core/parallel.hpp"
#include "core/thread_pool.hpp"
#include "features/gather.hpp"
#include "features/scatter.hpp"
#include "sampling/fused.hpp"

namespace {

using headrace::Expand;
using headrace::FusedSampler;
using headrace::HopGraph;
using headrace::HopSpec;
using headrace::Rule;
using headrace::Sampled;

constexpr std::size_t kNumNodes = 10000;
constexpr std::size_t kNumSeeds = 3000;  // six tasks in the first hop, for two calls of three threads each
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
    {"LADIES", {Rule::Kind::kLadies, 2000}},
    {"PLADIES", {Rule::Kind::kLadiesPoisson, 2000}},
    {"all", {Rule::Kind::kNeighbor, Rule::kAll}},
};

// Of each node's in-edges a few, of every tenth many, of some none.
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
  std::size_t most_slots;  // of the node map, which is a table if there are fewer than nodes
};

constexpr Variant kVariants[] = {
    {"plain", false, false, Expand::kAll, false, true, kNumNodes},
    {"new nodes, edge ids that are stored", false, false, Expand::kNew, true, true, kNumNodes},
    {"no edge ids, nodes in a table", false, false, Expand::kAll, false, false, 0},
    {"by weight", true, false, Expand::kAll, true, true, kNumNodes},
    {"by positive weight, new nodes", true, true, Expand::kNew, false, false, kNumNodes},
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
  Rule rule = one.rule;
  rule.by_weight = variant.weighted;
  const std::vector<HopSpec> hops{{{rule}, 1}, {{rule}, 2}};
  const auto sample = [&](FusedSampler<Index>& sampler, int num_threads) {
    return sampler.sample(seeds.data(), seeds.size(), hops, variant.expand, variant.want_edge_ids, num_threads, {}, {});
  };
  FusedSampler<Index> alone(graph, {}, kNumNodes, 1, variant.most_slots);
  const auto expected = sample(alone, 1);
  FusedSampler<Index> shared(graph, {}, kNumNodes, 1, variant.most_slots);
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

// Loops that share threads, some of which fail, and before some of which the helpers have gone to sleep.
void run_loops() {
  constexpr std::size_t kNumLoops = 400;
  for (std::size_t loop = 0; loop < kNumLoops; ++loop) {
    if (loop % 100 == 50) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::size_t num_tasks = loop + 1 == kNumLoops ? 500 : loop % 23;
    const bool body_fails = loop % 2 == 0;  // otherwise finishing does
    const std::size_t first_failure = loop % 7 == 0 ? num_tasks / 2 : num_tasks;
    std::vector<std::size_t> made(num_tasks);
    std::vector<std::size_t> finished;
    const auto make = [&](std::size_t task) {
      if (task >= first_failure && body_fails) throw std::runtime_error(std::to_string(task));
      made[task] = loop + task;
    };
    const auto finish = [&](std::size_t task) {
      if (task >= first_failure) throw std::runtime_error(std::to_string(task));
      finished.push_back(made[task]);
    };
    const auto failure_of = [](const auto& run) -> std::string {
      try {
        run();
      } catch (const std::runtime_error& error) {
        return error.what();
      }
      return "";
    };
    const std::string expected = first_failure < num_tasks ? std::to_string(first_failure) : "";
    const std::string in_order = failure_of([&] { headrace::parallel_in_order(kNumThreads, num_tasks, make, finish); });
    check(in_order == expected, "first failure of a loop in order");
    check(finished.size() == first_failure, "tasks finished of a loop");
    for (std::size_t task = 0; task < finished.size(); ++task) check(finished[task] == loop + task, "order of a loop");
    const std::string in_any_order = failure_of([&] { headrace::parallel_for(kNumThreads, num_tasks, make); });
    check(in_any_order == (body_fails ? expected : ""), "first failure of a loop");
    check(
        !in_any_order.empty() || made ==
                                     [&] {
                                       std::vector<std::size_t> all(num_tasks);
                                       for (std::size_t task = 0; task < num_tasks; ++task) all[task] = loop + task;
                                       return all;
                                     }(),
        "tasks of a loop");
  }
}

// What a helper throws reaches the caller: this thread's own tasks wait until one of another thread has failed.
void fail_in_a_helper() {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> failed{false};
  bool caught = false;
  try {
    headrace::parallel_for(2, 1000, [&](std::size_t) {
      if (std::this_thread::get_id() != caller) {
        failed = true;
        throw std::runtime_error("in a helper");
      }
      while (!failed) std::this_thread::yield();
    });
  } catch (const std::runtime_error& error) {
    caught = std::string(error.what()) == "in a helper";
  }
  check(caught, "failure of a helper");
}

// Many threads that share loops at once, and more asked for than there are tasks; the pool grows to what one loop asks.
void share_the_pool() {
  constexpr int kNumCallers = 6;
  constexpr std::size_t kNumTasks = 64;
  std::atomic<int> num_right{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kNumCallers; ++caller) {
    callers.emplace_back([&, caller] {
      for (int loop = 0; loop < 50; ++loop) {
        std::atomic<std::size_t> sum{0};
        headrace::parallel_for(caller + 2, kNumTasks, [&](std::size_t task) { sum += task; });
        num_right += sum == kNumTasks * (kNumTasks - 1) / 2 ? 1 : 0;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  check(num_right == 50 * kNumCallers, "loops at once");
  check(headrace::threads_in_pool() <= kNumCallers, "threads of loops at once");
  headrace::parallel_for(4000, kNumTasks, [](std::size_t) {});
  check(headrace::threads_in_pool() <= kNumTasks - 1, "threads for more than there are tasks");
}

// The process ends in the middle of loops of another thread.
void exit_amid_loops() {
  std::thread([] {
    for (;;) headrace::parallel_for(kNumThreads, 8, [](std::size_t) {});
  }).detach();
  headrace::parallel_for(kNumThreads, 100, [](std::size_t) {});
}

}  // namespace

int main() {
  headrace::share_all_work(true);
  const RandomGraph<std::int32_t> narrow;
  const RandomGraph<std::int64_t> wide;
  for (const Case& one : kCases) {
    for (const Variant& variant : kVariants) {
      sample_at_once(narrow, one, variant);
      sample_at_once(wide, one, variant);
    }
    std::printf("%s\n", one.name);
  }
  move_rows();
  std::printf("rows\n");
  aggregate_rows();
  std::printf("aggregations\n");
  run_caches();
  std::printf("caches\n");
  run_loops();
  fail_in_a_helper();
  share_the_pool();
  std::printf("loops\n");
  exit_amid_loops();
}
