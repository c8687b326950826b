#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
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

using nb::literals::operator""_a;

Rule::Kind kind_named(const std::string& name) {
  for (const RuleTraits& traits : kRuleTraits) {
    if (name == traits.name) return traits.kind;
  }
  throw InputError("no kind of rules is called " + name);
}

nb::object optional(Buffer<float>&& weights, bool present) {
  return present ? nb::cast(to_numpy(std::move(weights))) : nb::none();
}

template <class Index>
nb::tuple to_tuple(Hop<Index>& hop) {
  return nb::make_tuple(to_numpy(std::move(hop.indptr)), to_numpy(std::move(hop.neighbors)),
                        to_numpy(std::move(hop.edges)), optional(std::move(hop.weights), hop.has_weights));
}

template <class Index>
void set_times(HopGraph<Index>& graph, const MaybeArray<std::int64_t>& times) {
  if (times) check_length("times", times->shape(0), graph.csc.num_edges);
  graph.times = data_or_null(times);
}

Frontier elements_of(const InArray<std::int64_t>& frontier, const MaybeArray<std::int64_t>& slots,
                     const MaybeArray<std::int64_t>& bounds, const MaybeArray<std::int64_t>& lows) {
  const std::size_t num_dst = frontier.shape(0);
  constexpr const char* kElement = "element of the frontier";
  if (slots) check_length<ItemsError>("sample_hop: slots", slots->shape(0), num_dst, kElement);
  if (bounds) check_length<ItemsError>("sample_hop: bounds", bounds->shape(0), num_dst, kElement);
  if (lows) check_length<ItemsError>("sample_hop: lows", lows->shape(0), num_dst, kElement);
  return {frontier.data(), num_dst, data_or_null(slots), data_or_null(bounds), data_or_null(lows)};
}

// A graph without types has a row for each node and no relations; one with types names its number of nodes.
template <class Index>
nb::tuple hop(const InArray<std::int64_t>& indptr, const InArray<Index>& indices, const InArray<std::int64_t>& frontier,
              const std::vector<Rule>& rules, const VariateKeys& keys, nb::handle weights, int num_threads,
              nb::object reducer, bool parallel_edges, const MaybeArray<std::int64_t>& slots,
              const MaybeArray<std::int64_t>& times, const MaybeArray<std::int64_t>& bounds,
              const MaybeArray<std::int64_t>& lows, nb::handle excluded, const std::vector<Relation>& relations,
              std::optional<std::size_t> num_nodes) {
  const AnyExcluded excluded_arrays = any_excluded(excluded);
  const AnyWeights edge_weights = any_weights(weights);
  const std::unique_ptr<BoundReducer> parts = bound_reducer(std::move(reducer));
  HopCollector<Index> collector;
  {
    const nb::gil_scoped_release release;
    HopGraph<Index> graph = view(indptr, indices, {}, edge_weights);
    graph.parallel_edges = parallel_edges;
    set_times(graph, times);
    const std::size_t nodes = num_nodes.value_or(graph.csc.num_nodes);
    const bool typed = num_nodes.has_value();
    check_relations(relations, nodes, graph.csc.num_nodes);
    if (rules.size() != (typed ? relations.size() : 1)) {
      throw InputError("expected one rule for each relation, and one without types");
    }
    std::optional<ExcludedEdges<Index>> excluded_edges;
    if (const auto rows = view(excluded_arrays)) {
      graph.excluded = &excluded_edges.emplace(graph.csc, *rows, slots.has_value());
    }
    const Frontier elements = elements_of(frontier, slots, bounds, lows);
    check_frontier(elements.nodes, elements.size, nodes, "sample_hop: frontier");
    if (typed) {
      sample_typed_hop<Index>({graph, relations, elements, rules, keys, num_threads, collector, parts.get()});
    } else {
      sample_hop<Index>({graph, elements, rules[0], keys, num_threads, collector, parts.get()});
    }
  }
  return to_tuple(collector.hop());
}

// Owns references to the graph's arrays, so that the kernels may borrow them.
class BoundSampler {
 public:
  BoundSampler(InArray<std::int64_t> indptr, nb::handle indices, nb::handle edge_ids, nb::handle weights,
               const std::vector<Relation>& relations, std::optional<std::size_t> num_nodes, std::uint32_t first_number,
               std::size_t most_slots, MaybeArray<std::int64_t> times)
      : indptr_(std::move(indptr)),
        indices_(any_ids(indices)),
        edge_ids_(any_ids(edge_ids)),
        weights_(any_weights(weights)),
        times_(std::move(times)),
        num_rules_(std::max<std::size_t>(relations.size(), 1)) {
    const auto make = [&](const auto& sources) {
      using Index = std::remove_const_t<typename std::decay_t<decltype(sources)>::Scalar>;
      HopGraph<Index> graph = view(indptr_, sources, edge_ids_, weights_);
      set_times(graph, times_);
      const std::size_t nodes = num_nodes.value_or(graph.csc.num_nodes);
      if (relations.empty() && nodes != graph.csc.num_nodes) {
        throw GraphError("a graph without relations has a row for each node");
      }
      check_relations(relations, nodes, graph.csc.num_nodes);
      sampler_ = std::make_unique<FusedSampler<Index>>(graph, relations, nodes, first_number, most_slots);
    };
    if (const auto* narrow = std::get_if<InArray<std::int32_t>>(&indices_)) {
      make(*narrow);
    } else if (const auto* wide = std::get_if<InArray<std::int64_t>>(&indices_)) {
      make(*wide);
    } else {
      throw GraphError("expected indices to be an array of int32 or int64, got None");
    }
  }

  nb::tuple sample(const InArray<std::int64_t>& seeds, const std::vector<std::vector<Rule>>& rules,
                   const std::vector<VariateKeys>& keys, bool expand_new, bool want_edge_ids, int num_threads,
                   nb::handle excluded) {
    const AnyExcluded excluded_arrays = any_excluded(excluded);
    const std::vector<HopSpec> hops = specs(rules, keys);
    const Expand expand = expand_new ? Expand::kNew : Expand::kAll;
    return made_by(
        [&](auto& sampler) {
          return sampler.sample(seeds.data(), seeds.shape(0), hops, expand, want_edge_ids, num_threads,
                                view(excluded_arrays));
        },
        want_edge_ids);
  }

  nb::tuple sample_trees(const InArray<std::int64_t>& seeds, const InArray<std::int64_t>& slots, std::size_t num_trees,
                         const MaybeArray<std::int64_t>& streams, const MaybeArray<std::int64_t>& bounds,
                         const MaybeArray<std::int64_t>& lows, const std::vector<std::vector<Rule>>& rules,
                         const std::vector<VariateKeys>& keys, bool expand_new, bool want_edge_ids, int num_threads,
                         nb::handle excluded) {
    const AnyExcluded excluded_arrays = any_excluded(excluded);
    check_length<ItemsError>("sample_trees: slots", slots.shape(0), seeds.shape(0), "seed");
    if (streams) check_length<ItemsError>("sample_trees: streams", streams->shape(0), num_trees, "tree");
    if (bounds) check_length<ItemsError>("sample_trees: bounds", bounds->shape(0), num_trees, "tree");
    if (lows) check_length<ItemsError>("sample_trees: lows", lows->shape(0), num_trees, "tree");
    const Trees trees{slots.data(), num_trees, data_or_null(streams), data_or_null(bounds), data_or_null(lows)};
    const std::vector<HopSpec> hops = specs(rules, keys);
    const Expand expand = expand_new ? Expand::kNew : Expand::kAll;
    return made_by(
        [&](auto& sampler) {
          return sampler.sample_trees(seeds.data(), seeds.shape(0), trees, hops, expand, want_edge_ids, num_threads,
                                      view(excluded_arrays));
        },
        want_edge_ids, true);
  }

  std::size_t scratch_bytes() {
    const nb::gil_scoped_release release;
    return std::visit([](auto& sampler) { return sampler->scratch_bytes(); }, sampler_);
  }

 private:
  std::vector<HopSpec> specs(const std::vector<std::vector<Rule>>& rules, const std::vector<VariateKeys>& keys) const {
    if (keys.size() != rules.size()) throw InputError("expected one key per rule");
    std::vector<HopSpec> hops;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (rules[i].size() != num_rules_) throw InputError("expected one rule for each relation, and one without types");
      hops.push_back({rules[i], keys[i]});
    }
    return hops;
  }

  // What sample(sampler) returns, without the lock of the interpreter.
  template <class Sample>
  nb::tuple made_by(const Sample& sample, bool want_edge_ids, bool in_trees = false) {
    return std::visit(
        [&](auto& sampler) {
          auto sampled = [&] {
            const nb::gil_scoped_release release;
            return sample(*sampler);
          }();
          nb::list blocks;
          for (auto& block : sampled.blocks) {
            nb::object edge_ids = nb::none();
            if (want_edge_ids) edge_ids = nb::cast(to_numpy(std::move(block.edge_ids)));
            blocks.append(nb::make_tuple(to_numpy(std::move(block.indptr)), to_numpy(std::move(block.indices)),
                                         edge_ids, optional(std::move(block.weights), block.has_weights),
                                         block.num_src));
          }
          const nb::tuple found = nb::make_tuple(to_numpy(std::move(sampled.n_id)), blocks, nb::cast(sampled.num_nodes),
                                                 nb::cast(sampled.num_edges));
          return in_trees ? nb::tuple(found + nb::make_tuple(to_numpy(std::move(sampled.slots)))) : found;
        },
        sampler_);
  }

  InArray<std::int64_t> indptr_;
  AnyIds indices_;
  AnyIds edge_ids_;
  AnyWeights weights_;
  MaybeArray<std::int64_t> times_;
  std::size_t num_rules_;
  std::variant<std::unique_ptr<FusedSampler<std::int32_t>>, std::unique_ptr<FusedSampler<std::int64_t>>> sampler_;
};

template <class Index>
void bind_hop(nb::module_& m) {
  m.def("sample_hop", &hop<Index>, "indptr"_a.noconvert(), "indices"_a.noconvert(), "frontier"_a.noconvert(), "rules"_a,
        "key"_a, "weights"_a.none(), "num_threads"_a, "reducer"_a.none() = nb::none(), "parallel_edges"_a = true,
        "slots"_a.noconvert() = nb::none(), "times"_a.noconvert() = nb::none(), "bounds"_a.noconvert() = nb::none(),
        "lows"_a.noconvert() = nb::none(), "excluded"_a.none() = nb::none(), "relations"_a = std::vector<Relation>(),
        "num_nodes"_a.none() = nb::none());
}

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
  m.def("labor_scan", &labor_scan<std::int32_t>, "ids"_a.noconvert(), "keys"_a, "bound"_a, "wanted"_a,
        "instructions"_a);
  m.def("labor_scan", &labor_scan<std::int64_t>, "ids"_a.noconvert(), "keys"_a, "bound"_a, "wanted"_a,
        "instructions"_a);
  m.def("labor_variates", &variates_of_edges<std::int32_t>, "key"_a, "sources"_a.noconvert(), "numbers"_a.noconvert());
  m.def("labor_variates", &variates_of_edges<std::int64_t>, "key"_a, "sources"_a.noconvert(), "numbers"_a.noconvert());
  m.def(
      "check_weights",
      [](const InArray<std::int64_t>& indptr, nb::handle weights, int num_threads) {
        const AnyWeights edge_weights = any_weights(weights);
        const nb::gil_scoped_release release;
        check_weights(indptr.data(), num_nodes_of(indptr), size(edge_weights), view(edge_weights), num_threads);
      },
      "indptr"_a.noconvert(), "weights"_a, "num_threads"_a);
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
  bind_hop<std::int32_t>(m);
  bind_hop<std::int64_t>(m);
  nb::class_<BoundSampler>(m, "FusedSampler")
      .def(nb::init<InArray<std::int64_t>, nb::handle, nb::handle, nb::handle, const std::vector<Relation>&,
                    std::optional<std::size_t>, std::uint32_t, std::size_t, MaybeArray<std::int64_t>>(),
           "indptr"_a.noconvert(), "indices"_a, "edge_ids"_a.none(), "weights"_a.none(),
           "relations"_a = std::vector<Relation>(), "num_nodes"_a.none() = nb::none(), "first_number"_a = 1,
           "most_slots"_a = NodeMap::kMostSlots, "times"_a.noconvert() = nb::none())
      .def("scratch_bytes", &BoundSampler::scratch_bytes)
      .def("sample", &BoundSampler::sample, "seeds"_a.noconvert(), "rules"_a, "keys"_a, "expand_new"_a,
           "want_edge_ids"_a, "num_threads"_a, "excluded"_a.none() = nb::none())
      .def("sample_trees", &BoundSampler::sample_trees, "seeds"_a.noconvert(), "slots"_a.noconvert(), "num_trees"_a,
           "streams"_a.noconvert().none(), "bounds"_a.noconvert().none(), "lows"_a.noconvert().none(), "rules"_a,
           "keys"_a, "expand_new"_a, "want_edge_ids"_a, "num_threads"_a, "excluded"_a.none() = nb::none());
}

}  // namespace headrace
