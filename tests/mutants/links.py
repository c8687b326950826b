"""Faults in negatives and in leaving out the edges of seeds."""

from __future__ import annotations

from mutants.mutant import Mutant

_EXCLUDED = "tests/ops/sampling/test_excluded.py::"
_NEGATIVES = "tests/ops/sampling/test_negatives.py::"
_STRICTLY = "tests/behaviour/stages/test_strictly_before.py::"
_STAGE = "tests/behaviour/stages/test_uniform_negative.py::"
_LABELS = "tests/behaviour/stages/test_labels_with_negatives.py::"
_BY_TREE = "tests/ops/sampling/test_excluded_by_tree.py::"
_PER_SEED = "tests/behaviour/stages/test_exclude_per_seed.py::"
_BY_DEGREE = "tests/behaviour/stages/test_negatives_by_degree_and_time.py::"
_EXCLUDE = "tests/behaviour/stages/test_exclude_seed_edges.py::"

LINKS = (
    Mutant(
        "pipeline/stages/uniform_negative.py",
        "int(num_pairs * self.ratio) *",
        "int(self.ratio) *",
        "tests/pipeline/plan/test_sizes.py::test_negatives_of_a_batch[binary-1-51]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "(back[0], back[2]) != (there[2], there[0])",
        "back == there == ()",
        _EXCLUDE + "test_refuses_types_that_are_not_there_and_seeds_without_theirs",
    ),
    # The guards: what is excluded would be picked, or picked and counted.
    Mutant(
        "ops/native/sampling/segments.hpp",
        "if (excluded_ == nullptr) return",
        "return",
        _EXCLUDE + "test_peers_18_excluded_seed_edges_and_their_reverses_are_absent[neighbor]",
    ),
    Mutant(
        "ops/native/sampling/hop_loop.hpp",
        "Row left{row.start, row.degree - gaps.count};",
        "Row left{row.start, row.degree};",
        _EXCLUDED + "test_a_hop_equals_the_reference_without_the_edges",
    ),
    Mutant(
        "ops/native/sampling/excluded.hpp",
        "positions[i] <= position; ++i) ++position;",
        "positions[i] < position; ++i) ++position;",
        _EXCLUDED + "test_a_hop_equals_the_reference_without_the_edges",
    ),
    Mutant(
        "ops/native/sampling/excluded.hpp",
        "if (left_before <= offset) {",
        "if (left_before < offset) {",
        _EXCLUDED + "test_hubs_without_many_edges[1-uniform-NeighborRule(fanout=10, replace=False)]",
    ),
    Mutant(
        "ops/native/sampling/excluded.hpp",
        "all.positions[all.count - 1] < end) return all;",
        "true) return all;",
        _EXCLUDED + "test_a_hop_equals_the_reference_without_the_edges",
    ),
    Mutant(
        "ops/native/layerwise/layer_hop.cpp",
        "packed ? row.start + gaps.pack(segment.row.start, position) : position;",
        "position;",
        _EXCLUDED
        + "test_one_of_parallel_edges_may_be_excluded[cpu-plain-LaborImportanceRule(fanout=2, importance='*')]",
    ),
    Mutant(
        "ops/native/layerwise/layer_edges.cpp",
        "edges.has_gaps = edges.has_weights || graph.excluded != nullptr;",
        "edges.has_gaps = edges.has_weights;",
        _EXCLUDED + "test_one_of_parallel_edges_may_be_excluded[cpu-plain-LadiesRule(size=3, poisson=False)]",
    ),
    Mutant(
        "ops/native/links/find_edges.cpp",
        "const std::size_t end = std::min(degree, begin + kBlock);",
        "const std::size_t end = std::min(degree - 1, begin + kBlock);",
        _EXCLUDED + "test_find_edges_equals_the_reference",
    ),
    Mutant(
        "ops/native/links/find_edges.cpp",
        "set->insert(wanted.first[i].source, 0);",
        "",
        _EXCLUDED + "test_many_sources_of_one_row_are_found",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "(False, True) if self.reverse else (False,)",
        "(False,)",
        _EXCLUDE + "test_peers_18_excluded_seed_edges_and_their_reverses_are_absent[labor]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "batch.seeds if batch.num_positives is None else batch.seeds[: batch.num_positives, :2]",
        "batch.seeds[:, :2]",
        _EXCLUDE + "test_negatives_are_not_excluded[binary]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "if settings.world_size > 1:",
        "if settings.world_size < 1:",
        _STAGE + "test_peers_19_ranks_draw_what_one_process_draws[triplet-2-3]",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "self.trees is None and self.exclude is None",
        "self.trees is None",
        "tests/behaviour/passes/test_exclude_edges.py::test_fires_on_every_hop_behind",
    ),
    # Exclusion by tree: a tree leaves out its own edges, and negatives' trees those of their pair.
    Mutant(
        "ops/native/sampling/excluded.hpp",
        "found != end && *found == slot",
        "found != end",
        _BY_TREE + "test_a_hop_equals_the_reference_tree_by_tree",
    ),
    Mutant(
        "ops/native/sampling/segments.hpp",
        "frontier_.slots == nullptr ? 0 : frontier_.slots[i]",
        "0",
        _BY_TREE + "test_a_hop_equals_the_reference_tree_by_tree",
    ),
    Mutant(
        "ops/native/links/find_edges.cpp",
        "pair != end && pair->slot == first->slot",
        "pair != end",
        _BY_TREE + "test_find_edges_tells_an_edge_for_each_tree",
    ),
    Mutant(
        "ops/native/sampling/excluded.cpp",
        "excluded_.slots[i] <= excluded_.slots[i - 1]",
        "false",
        _BY_TREE + "test_refuses_what_find_edges_does_not_return",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "slots=None if slots is None else slots.repeat(len(relations)),",
        "slots=None,",
        _PER_SEED + "test_each_tree_is_that_of_a_graph_without_its_own_edges[neighbor-True-False]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "torch.where(places < longer, of_longer, of_others) - self.first",
        "places * 0",
        _PER_SEED + "test_negatives_are_asked_of_the_graph_of_their_pair[binary]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "gone = gone + size * excluded.slots",
        "gone = gone + 0 * excluded.slots",
        _PER_SEED + "test_each_tree_is_that_of_a_graph_without_its_own_edges[shadow-True-False]",
    ),
    Mutant(
        "pipeline/passes/exclude_edges.py",
        'if exclude.per == "seed" and stage.hop.trees is None:',
        "if False:",
        _PER_SEED + "test_refuses_seeds_that_share_their_neighbourhood",
    ),
    # Negatives: their law, and whose they are.
    Mutant(
        "ops/native/links/negatives.cpp",
        "if (!has_edge(source, node)) return node;",
        "return node;",
        _NEGATIVES + "test_equals_the_reference",
    ),
    Mutant(
        "ops/native/links/negatives.cpp",
        "if (listed_for_ != source || listed_of_ != size) list(source, size);",
        "if (listed_for_ < 0) list(source, size);",
        _NEGATIVES + "test_the_one_node_that_is_left_is_always_found[cpu-uniform]",
    ),
    Mutant(
        "ops/native/links/negatives.cpp",
        "std::upper_bound(begin + 1, begin + size, edge)",
        "std::lower_bound(begin + 1, begin + size, edge)",
        _NEGATIVES + "test_law[0 of 10-degree]",
    ),
    Mutant(
        "ops/native/links/negatives.cpp",
        "WordStream stream(key, first_pair + i);",
        "WordStream stream(key, i);",
        _NEGATIVES + "test_a_pair_draws_the_same_wherever_it_is_drawn",
    ),
    Mutant(
        "pipeline/lowered/_draw_negatives.py",
        "first_pair=share.first,",
        "first_pair=0,",
        _STAGE + "test_peers_19_ranks_draw_what_one_process_draws[binary-1.5-2]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "positive = y + 1 if shifts else y",
        "positive = y",
        _STAGE + "test_peers_17_labels_that_begin_at_0_move_up[from 0]",
    ),
    # Labels: a positive pair would have the class of negatives.
    Mutant(
        "pipeline/lowered/_negatives.py",
        "of_ranks = settings.rank_labels or (",
        "of_ranks = (",
        _LABELS + "test_ranks_that_bring_their_own_decide_together[alone]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "if smallest != 0 and any(one.has_zero for one in known):",
        "if False:",
        _LABELS + "test_labels_of_which_one_would_be_0_are_refused[-1 to 1]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "refused = are_zero(positive) | cannot_increase(y) if shifts else are_zero(positive)",
        "refused = cannot_increase(y) if shifts else ~are_zero(positive) & are_zero(positive)",
        _LABELS + "test_labels_written_to_begin_elsewhere_are_refused[0]",
    ),
    Mutant(
        "pipeline/stages/uniform_negative.py",
        "total = ceil(ratio * batch.num_global_seeds)",
        "total = int(ratio * batch.num_global_seeds)",
        _STAGE + "test_peers_17_binary_negatives_stand_behind_the_positive_pairs",
    ),
    # Times: a later node would be drawn.
    Mutant(
        "ops/native/links/negatives.cpp",
        "prefix == nullptr ? nodes.size : static_cast<std::size_t>(prefix[i])",
        "nodes.size",
        _STAGE + "test_peers_15_negatives_are_no_later_than_their_pairs",
    ),
    Mutant(
        "pipeline/data/times.py",
        "pairwise(bounds):\n        order[first:last] = times[first:last].argsort(stable=True)",
        "pairwise(bounds):\n        order[first:last] = times[first:last].argsort(stable=True, descending=True)",
        _STAGE + "test_peers_15_negatives_are_no_later_than_their_pairs",
    ),
    Mutant(
        "ops/native/links/negatives.cpp",
        "listed_for_ != source || listed_of_ != size",
        "listed_for_ != source",
        _NEGATIVES + "test_a_list_is_made_anew_for_another_prefix",
    ),
    Mutant(
        "pipeline/stages/make_bidirectional.py",
        "if leading:",
        "if False:",
        "tests/behaviour/stages/test_subgraphs.py::test_bidirectional_refuses_types_that_lead_to_others",
    ),
    Mutant(
        "pipeline/data/typed_items.py",
        "self.numbers[owners]])",
        "torch.zeros_like(owners)])",
        "tests/behaviour/interop/test_typed_links.py::test_negatives_are_of_the_type_of_their_pair",
    ),
    Mutant(
        "pipeline/data/items.py",
        'np.searchsorted(ends, positions, side="right")',
        "np.searchsorted(ends, positions)",
        "tests/behaviour/interop/test_typed_links.py::test_each_edge_type_has_its_pairs_and_labels",
    ),
    Mutant(
        "pipeline/stages/conversions.py",
        "if has_choice else []",
        "if has_choice else samplers",
        "tests/behaviour/interop/test_to_pyg_stage.py::test_a_subgraph_takes_the_place_of_the_hops_before_it",
    ),
    # Pairs of several edge types: rows of a type are of some pairs alone.
    Mutant(
        "ops/sampling/find_edges.py",
        "array[there] for array in (trees, ids)",
        "array[: len(there)] for array in (trees, ids)",
        "tests/behaviour/stages/test_exclude_per_seed.py"
        "::test_pairs_of_several_edge_types_leave_out_their_own_edges[1-sample_neighbor-both ways]",
    ),
    Mutant(
        "ops/sampling/find_edges.py",
        "src = src[there]",
        "src = src[: len(there)]",
        "tests/behaviour/stages/test_exclude_per_seed.py"
        "::test_pairs_of_several_edge_types_leave_out_their_own_edges[1-sample_neighbor-both ways]",
    ),
    # Times of the seed itself: a link would find its own edge.
    Mutant(
        "pipeline/data/times.py",
        "return torch.where(latest > EARLIEST, latest - 1, EARLIEST) if strictly_before else latest",
        "return latest",
        _STRICTLY + "test_earlier_repeats_of_a_link_stay",
    ),
    Mutant(
        "pipeline/data/times.py",
        "return torch.where(times > EARLIEST, earliest, EARLIEST + 1)",
        "return earliest",
        _STRICTLY + "test_the_smallest_and_the_largest_integer[None]",
    ),
    Mutant(
        "pipeline/stages/hop_sampler.py",
        "Trees(self.time, self.window, self.strictly_before)",
        "Trees(self.time, self.window)",
        _STRICTLY + "test_earlier_repeats_of_a_link_stay",
    ),
    Mutant(
        "pipeline/data/times.py",
        "return torch.searchsorted(times, bounds.contiguous(), right=not strictly)",
        "return torch.searchsorted(times, bounds.contiguous(), right=True)",
        _STRICTLY + "test_by_degree_the_edge_of_the_pair_does_not_count",
    ),
    # Pairs that have no negative at their time would be found in the middle of training, or ones that have be refused.
    Mutant(
        "ops/sampling/negatives.py",
        "free[of_pair] >= ends[doubtful]",
        "free[of_pair] > ends[doubtful]",
        _NEGATIVES + "test_joined_with_all_before_looks_at_each_pair",
    ),
    Mutant(
        "ops/sampling/negatives.py",
        "degrees[asked] >= np.searchsorted(places, ends)",
        "degrees[asked] > np.searchsorted(places, ends)",
        _NEGATIVES + "test_joined_with_all_before_looks_at_each_pair",
    ),
    Mutant(
        "pipeline/stages/uniform_negative.py",
        "of_nodes.cumsum(0)])[prefix]",
        "of_nodes.cumsum(0)])[-1:]",
        _BY_DEGREE + "test_pairs_without_a_negative_at_their_time_are_refused_before_work_starts[False-of no weight]",
    ),
    # By degree and time: nodes that are not there yet, and degrees of other times.
    Mutant(
        "pipeline/lowered/_draw_negatives.py",
        "prefix=prefix,",
        "prefix=None,",
        _BY_DEGREE + "test_no_node_is_drawn_before_it_has_an_edge",
    ),
    Mutant(
        "pipeline/data/times.py",
        "of_ends = torch.maximum(known.nodes[ends], gather_rows(known.nodes, graph.indices))",
        "of_ends = known.nodes[ends]",
        _BY_DEGREE + "test_no_node_is_drawn_before_it_has_an_edge",
    ),
    Mutant(
        "pipeline/data/times.py",
        "times = of_ends if times is None else torch.maximum(times, of_ends)",
        "times = of_ends",
        _BY_DEGREE + "test_no_node_is_drawn_before_it_has_an_edge",
    ),
    Mutant(
        "ops/native/links/negatives.cpp",
        "joined.insert(node, known)",
        "joined.insert(node, 0)",
        _NEGATIVES + "test_of_an_order_with_repeats_equals_the_reference",
    ),
    # Exclusion: stages behind the hops would bring the edges back.
    Mutant(
        "pipeline/stages/induce_subgraph.py",
        "subgraph = _without(subgraph, left_out, _trees(batch))",
        "pass",
        _EXCLUDE + "test_peers_18_excluded_seed_edges_and_their_reverses_are_absent[induced]",
    ),
    Mutant(
        "pipeline/passes/cooperative.py",
        "if position >= first and",
        "if",
        "tests/behaviour/passes/test_cooperative.py::test_links_of_all_ranks_are_those_of_one",
    ),
)
