"""Faults in parts of graphs: whose edges are whose, where their rows are, and which seeds a rank gets."""

from __future__ import annotations

from mutants.mutant import Mutant

_BY_EDGES = "tests/behaviour/storage/parts/test_by_edges.py::"
_EDGES = "tests/behaviour/storage/parts/test_edge_features.py::"
_RANKS = "tests/ops/graphs/test_ranks.py::"
_SHARDS = "tests/behaviour/storage/test_shards.py::"

PARTS = (
    Mutant(
        "ops/native/graphs/row_ranks.hpp",
        "if ((bits & bit) == 0) return -1;",
        "",
        _RANKS + "test_places_are_those_in_the_list",
    ),
    Mutant(
        "ops/native/graphs/row_ranks.hpp",
        "static_cast<std::int64_t>(block[0] + before)",
        "static_cast<std::int64_t>(before)",
        _RANKS + "test_places_are_those_in_the_list",
    ),
    Mutant(
        "ops/graphs/ranks.py",
        "bits & ((1 << (bound - block * _IDS)) - 1)",
        "bits",
        _RANKS + "test_members_and_counts_are_those_of_the_list",
    ),
    Mutant("pipeline/partition/part_owners.py", "self._ranks.num_below(node)", "0", _EDGES + "test_types[2]"),
    Mutant(
        "pipeline/partition/part_owners.py",
        "return mine == theirs and",
        "return",
        _EDGES + "test_parts_of_two_cuts_differ",
    ),
    Mutant(
        "pipeline/lowered/ranks/fetch_edges.py",
        "take_rows(torch.cat([own, came]), asked.places)",
        "torch.cat([own, came])",
        _EDGES + "test_a_round_for_ids_and_one_for_rows_of_each_feature",
    ),
    Mutant(
        "pipeline/passes/fetch_at_owners.py",
        "{} if facts.shares_layers else sharded_edges(fetch.wanted)",
        "sharded_edges(fetch.wanted)",
        _EDGES + "test_ranks_that_cooperate_have_the_rows_of_the_edges_that_they_find",
    ),
    Mutant(
        "pipeline/passes/cooperative.py",
        "of_owners(stages[0], partition) if in_shards else None",
        "None",
        _EDGES + "test_ranks_that_cooperate_take_the_seeds_that_they_own",
    ),
    Mutant(
        "pipeline/passes/sample_at_owners.py",
        "owners_of_features((*between, fetch)) if is_apart else None",
        "None",
        _SHARDS + "test_several_features_in_shards",
    ),
    Mutant(
        "pipeline/storage/parts/write_parts.py",
        "ids = ids[low:high] - of_type.start",
        "ids = ids[low:high]",
        _EDGES + "test_types[2]",
    ),
    Mutant(
        "pipeline/storage/parts/write_parts.py",
        "        ids.numpy().sort()  # in place, as parts are large\n",
        "        pass\n",
        _EDGES + "test_pairs_without_their_own_edges[2]",
    ),
    Mutant(
        "pipeline/storage/dataset/check_manifest.py",
        '_check_adds_up("num_edges", part.num_edges, part.num_edges_of_types, edge_types)',
        "pass",
        "tests/behaviour/storage/parts/test_types_of_parts.py::test_counts_of_types_that_do_not_add_up",
    ),
    Mutant(
        "pipeline/storage/parts/write_parts.py",
        "others = ends[shard.masters.owner(ends) != shard.part]",
        "others = ends",
        _BY_EDGES + "test_parts_of_graphs_with_types[False-grid]",
    ),
    Mutant(
        "pipeline/distributed/edge_part.py",
        'repeats[order] = torch.arange(len(order), device="cpu") - starts[pairs[order]]',
        "repeats[order] = torch.zeros_like(order)",
        _BY_EDGES + "test_parts_of_graphs_with_types[False-source]",
    ),
    Mutant(
        "pipeline/models/sar/rank_edges.py",
        "asked = partition.position(comm.all_to_all(torch.cat(wanted), receive_counts, send_counts))",
        "asked = comm.all_to_all(torch.cat(wanted), receive_counts, send_counts)",
        "tests/behaviour/models/sar/test_sharded_graph.py::test_parts_on_disk_are_enough[hash]",
    ),
    Mutant(
        "ops/sampling/walk.py",
        "sums = self.sums[entries].where(summed > starts, 0.0)",
        "sums = self.sums[entries]",
        _BY_EDGES + "test_parts_of_graphs_with_types[False-grid]",
    ),
    Mutant(
        "ops/sampling/walk.py",
        "sums[filled] = self.before(starts[filled], last) + weights[last].double()",
        "sums[filled] = self.before(starts[filled], last)",
        _BY_EDGES + "test_parts_of_graphs_with_types[False-source]",
    ),
)
