#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/reducer.hpp"
#include "bindings/views.hpp"
#include "core/thread_pool.hpp"
#include "random/labor_variates.hpp"
#include "sampling/blended_scan.hpp"
#include "sampling/fused.hpp"
#include "sampling/hop.hpp"
#include "sampling/hop_collector.hpp"
#include "sampling/labor_scan.hpp"
#include "sampling/relations.hpp"
#include "sampling/typed_hop.hpp"
#include "weighted/weights.hpp"

namespace headrace {
namespace {

Rule::Kind kind_named(const std::string& name) {
  for (const RuleTraits& traits : kRuleTraits) {
    if (name == traits.name) return traits.kind;
  }
  throw InputError("no kind of rules is called " + name);
}

// A graph without types has a row for each node, no relations and one rule; one with types names its number of nodes.
struct Typing {
  std::vector<Relation> relations;
  std::size_t num_nodes;
  std::size_t num_rules;

  Typing(const std::vector<Relation>& given, std::optional<std::size_t> nodes, std::size_t num_rows, bool typed)
      : relations(given), num_nodes(nodes.value_or(num_rows)), num_rules(typed ? given.size() : 1) {
    check_relations(relations, num_nodes, num_rows);
  }

  void check_rules(const std::vector<Rule>& rules) const {
    if (rules.size() != num_rules) throw InputError("expected one rule for each relation, and one without types");
  }
};

Frontier elements_of(const InArray<std::int64_t>& frontier, const MaybeArray<std::int64_t>& slots,
                     const MaybeArray<std::int64_t>& bounds, const MaybeArray<std::int64_t>& lows) {
  const std::size_t num_dst = frontier.shape(0);
  constexpr const char* kElement = "element of the frontier";
  check_length("sample_hop: slots", slots, num_dst, kElement);
  check_length("sample_hop: bounds", bounds, num_dst, kElement);
  check_length("sample_hop: lows", lows, num_dst, kElement);
  return {frontier.data(), num_dst, data_or_null(slots), data_or_null(bounds), data_or_null(lows)};
}

template <class Index>
nb::tuple hop(const AnyRows& indptr, const InArray<Index>& indices, const InArray<std::int64_t>& frontier,
              const std::vector<Rule>& rules, const VariateKeys& keys, const AnyWeights& weights, int num_threads,
              nb::object reducer, bool parallel_edges, const MaybeArray<std::int64_t>& slots,
              const MaybeArray<std::int64_t>& times, const MaybeArray<std::int64_t>& bounds,
              const MaybeArray<std::int64_t>& lows, const AnyExcluded& excluded, const std::vector<Relation>& relations,
              std::optional<std::size_t> num_nodes) {
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  HopCollector<Index> collector;
  unlocked([&] {
    HopGraph<Index> graph = view(indptr, indices, {}, weights, times);
    graph.parallel_edges = parallel_edges;
    const Typing typing(relations, num_nodes, graph.csc.num_nodes, num_nodes.has_value());
    typing.check_rules(rules);
    std::optional<ExcludedEdges<Index>> excluded_edges;
    if (const auto rows = view(excluded)) {
      graph.excluded = &excluded_edges.emplace(graph.csc, *rows, slots.has_value());
    }
    const Frontier elements = elements_of(frontier, slots, bounds, lows);
    check_frontier(elements.nodes, elements.size, typing.num_nodes, "sample_hop: frontier");
    if (num_nodes) {
      sample_typed_hop<Index>({graph, relations, elements, rules, keys, num_threads, collector, parts.get()});
    } else {
      sample_hop<Index>({graph, elements, rules[0], keys, num_threads, collector, parts.get()});
    }
  });
  Hop<Index>& hop = collector.hop();
  return nb::make_tuple(to_numpy(std::move(hop.indptr)), to_numpy(std::move(hop.neighbors)),
                        to_numpy(std::move(hop.edges)), to_numpy_or_none(std::move(hop.weights), hop.has_weights));
}

// Of seeds slots, how many trees, and of these streams, bounds and lower bounds.
using AnyTrees = std::optional<std::tuple<InArray<std::int64_t>, std::size_t, MaybeArray<std::int64_t>,
                                          MaybeArray<std::int64_t>, MaybeArray<std::int64_t>>>;

std::optional<Trees> trees_of(const AnyTrees& trees, std::size_t num_seeds) {
  if (!trees) return std::nullopt;
  check_parts(*trees);
  const auto& [slots, num_trees, streams, bounds, lows] = *trees;
  check_length("sample_trees: slots", slots.shape(0), num_seeds, "seed");
  check_length("sample_trees: streams", streams, num_trees, "tree");
  check_length("sample_trees: bounds", bounds, num_trees, "tree");
  check_length("sample_trees: lows", lows, num_trees, "tree");
  return Trees{slots.data(), num_trees, data_or_null(streams), data_or_null(bounds), data_or_null(lows)};
}

// Owns references to the graph's arrays, so that the kernels may borrow them.
class BoundSampler {
 public:
  BoundSampler(AnyRows indptr, AnyIds indices, AnyIds edge_ids, AnyWeights weights,
               const std::vector<Relation>& relations, std::optional<std::size_t> num_nodes, std::uint32_t first_number,
               std::size_t most_slots, MaybeArray<std::int64_t> times)
      : indptr_(std::move(indptr)),
        indices_(std::move(indices)),
        edge_ids_(std::move(edge_ids)),
        weights_(std::move(weights)),
        times_(std::move(times)),
        typing_(relations, num_nodes, num_rows_of(indptr_), !relations.empty()) {
    if (relations.empty() && typing_.num_nodes != num_rows_of(indptr_)) {
      throw InputError("a graph without relations has a row for each node");
    }
    std::visit(
        [&](const auto& sources) {
          if constexpr (std::is_same_v<std::decay_t<decltype(sources)>, std::monostate>) {
            throw InputError("expected indices to be an array of int32 or int64, got None");
          } else {
            using Index = std::remove_const_t<typename std::decay_t<decltype(sources)>::Scalar>;
            sampler_ =
                std::make_unique<FusedSampler<Index>>(view(indptr_, sources, edge_ids_, weights_, times_),
                                                      typing_.relations, typing_.num_nodes, first_number, most_slots);
          }
        },
        indices_);
  }

  nb::tuple sample(const InArray<std::int64_t>& seeds, const std::vector<std::vector<Rule>>& rules,
                   const std::vector<VariateKeys>& keys, bool expand_new, bool want_edge_ids, int num_threads,
                   const AnyExcluded& excluded, const AnyTrees& trees) {
    if (keys.size() != rules.size()) throw InputError("expected one key per rule");
    std::vector<HopSpec> hops;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      typing_.check_rules(rules[i]);
      hops.push_back({rules[i], keys[i]});
    }
    const std::optional<Trees> grown = trees_of(trees, seeds.shape(0));
    const Expand expand = expand_new ? Expand::kNew : Expand::kAll;
    return std::visit(
        [&](auto& sampler) {
          auto sampled = unlocked([&] {
            return sampler->sample(seeds.data(), seeds.shape(0), hops, expand, want_edge_ids, num_threads,
                                   view(excluded), grown);
          });
          nb::list blocks;
          for (auto& block : sampled.blocks) {
            blocks.append(nb::make_tuple(to_numpy(std::move(block.indptr)), to_numpy(std::move(block.indices)),
                                         to_numpy_or_none(std::move(block.edge_ids), want_edge_ids),
                                         to_numpy_or_none(std::move(block.weights), block.has_weights), block.num_src));
          }
          return nb::make_tuple(to_numpy(std::move(sampled.n_id)), blocks, sampled.num_nodes, sampled.num_edges,
                                to_numpy_or_none(std::move(sampled.slots), grown.has_value()));
        },
        sampler_);
  }

  std::size_t scratch_bytes() {
    return unlocked([&] { return std::visit([](auto& sampler) { return sampler->scratch_bytes(); }, sampler_); });
  }

 private:
  AnyRows indptr_;
  AnyIds indices_;
  AnyIds edge_ids_;
  AnyWeights weights_;
  MaybeArray<std::int64_t> times_;
  Typing typing_;
  std::variant<std::unique_ptr<FusedSampler<std::int32_t>>, std::unique_ptr<FusedSampler<std::int64_t>>> sampler_;
};

// One row's candidates and which of them are the `wanted` smallest; for the tests, which compare the instruction sets.
template <class Index>
nb::tuple labor_scan(const InArray<Index>& ids, const VariateKeys& keys, std::uint32_t bound, std::size_t wanted,
                     InstructionSet set) {
  const std::size_t room = ids.shape(0) + kScanSlack;
  Buffer<std::uint32_t> high(room);
  Buffer<std::uint32_t> offsets(room);
  Buffer<std::uint32_t> kept(room);
  const std::size_t count =
      keys.blends ? BlendedScan<Index>(keys)(ids.data(), ids.shape(0), bound, high.data(), offsets.data())
                  : scan_variates(ids.data(), ids.shape(0), keys.key, bound, high.data(), offsets.data(), {}, set);
  kept.resize(keep_smallest(high.data(), offsets.data(), count, wanted, kept.data(), set));
  high.resize(count);
  offsets.resize(count);
  return nb::make_tuple(to_numpy(std::move(high)), to_numpy(std::move(offsets)), to_numpy(std::move(kept)));
}

// Those of edges, each with its source and its number among parallel ones; for the tests as well.
template <class Index>
nb::object variates_of_edges(const VariateKeys& key, const InArray<Index>& sources,
                             const InArray<std::uint32_t>& numbers) {
  const std::size_t count = sources.shape(0);
  if (numbers.shape(0) != count) throw InputError("labor_variates: expected one number per source");
  Buffer<std::uint64_t> variates(count);
  labor_variates(key, sources.data(), numbers.data(), count, variates.data());
  return nb::cast(to_numpy(std::move(variates)));
}

}  // namespace

void bind_sample(nb::module_& m) {
  nb::class_<VariateKeys>(m, "VariateKeys")
      .def(
          "__init__",
          [](VariateKeys* self, std::uint64_t key, std::uint64_t next_key, std::uint64_t step,
             std::uint64_t num_steps) {
            if (step >= num_steps) throw InputError("VariateKeys: expected step < num_steps");
            new (self) VariateKeys(key, next_key, step, num_steps);
          },
          "key"_a, "next_key"_a = 0, "step"_a = 0, "num_steps"_a = 1)
      .def_prop_ro("cosine", [](const VariateKeys& keys) { return keys.turn.cosine; })
      .def_prop_ro("sine", [](const VariateKeys& keys) { return keys.turn.sine; });
  nb::implicitly_convertible<std::uint64_t, VariateKeys>();
  m.def("share_all_work", &share_all_work, "on"_a);
  m.def("threads_in_pool", &threads_in_pool);
  m.def(
      "check_weights",
      [](const InArray<std::int64_t>& indptr, const AnyWeights& weights, int num_threads) {
        check_weights(indptr.data(), num_nodes_of(indptr), size(weights), view(weights), num_threads);
      },
      "indptr"_array, "weights"_array, "num_threads"_a, nb::call_guard<nb::gil_scoped_release>());
  m.def("rule_traits", [] {
    nb::dict by_kind;
    for (const RuleTraits& kind : kRuleTraits) {
      nb::dict traits;
      traits["layer_wise"] = kind.has(RuleTraits::kLayerWise);
      traits["draws_edges"] = kind.has(RuleTraits::kDrawsEdges);
      traits["has_edge_variates"] = kind.has(RuleTraits::kHasEdgeVariates);
      traits["reads_edges"] = kind.has(RuleTraits::kReadsEdges);
      traits["is_bounded"] = kind.has(RuleTraits::kIsBounded);
      traits["takes_weights"] = kind.has(RuleTraits::kTakesWeights);
      traits["has_twin"] = kind.has(RuleTraits::kHasTwin);
      by_kind[kind.name] = traits;
    }
    return by_kind;
  });
  nb::class_<Rule>(m, "Rule").def(
      "__init__",
      [](Rule* self, const std::string& kind, std::int64_t fanout, std::int64_t rounds, bool by_weight) {
        new (self) Rule(rule_of(kind_named(kind), fanout, rounds, by_weight));
      },
      "kind"_a, "fanout"_a, "rounds"_a = 0, "by_weight"_a = false);
  nb::class_<Relation>(m, "Relation")
      .def(
          "__init__",
          [](Relation* self, std::int64_t first_node, std::int64_t end_node, std::int64_t first_row,
             std::int64_t stride) { new (self) Relation{first_node, end_node, first_row, stride}; },
          "first_node"_a, "end_node"_a, "first_row"_a, "stride"_a);
  for_both_widths([&](auto width) {
    using Index = decltype(width);
    m.def("labor_scan", &labor_scan<Index>, "ids"_array, "keys"_a, "bound"_a, "wanted"_a, "instructions"_a);
    m.def("labor_variates", &variates_of_edges<Index>, "key"_a, "sources"_array, "numbers"_array);
    m.def("sample_hop", &hop<Index>, "indptr"_array, "indices"_array, "frontier"_array, "rules"_a, "key"_a,
          "weights"_array.none(), "num_threads"_a, "reducer"_a = nb::none(), "parallel_edges"_a = true,
          "slots"_array = nb::none(), "times"_array = nb::none(), "bounds"_array = nb::none(),
          "lows"_array = nb::none(), "excluded"_array = nb::none(), "relations"_a = std::vector<Relation>(),
          "num_nodes"_a = nb::none());
  });
  nb::class_<BoundSampler>(m, "FusedSampler")
      .def(nb::init<AnyRows, AnyIds, AnyIds, AnyWeights, const std::vector<Relation>&, std::optional<std::size_t>,
                    std::uint32_t, std::size_t, MaybeArray<std::int64_t>>(),
           "indptr"_array, "indices"_array.none(), "edge_ids"_array.none(), "weights"_array.none(),
           "relations"_a = std::vector<Relation>(), "num_nodes"_a = nb::none(), "first_number"_a = 1,
           "most_slots"_a = NodeMap::kMostSlots, "times"_array = nb::none())
      .def("scratch_bytes", &BoundSampler::scratch_bytes)
      .def("sample", &BoundSampler::sample, "seeds"_array, "rules"_a, "keys"_a, "expand_new"_a, "want_edge_ids"_a,
           "num_threads"_a, "excluded"_array = nb::none(), "trees"_array = nb::none());
}

}  // namespace headrace
