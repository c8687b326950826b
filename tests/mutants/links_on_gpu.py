"""Faults in what a GPU does for links: an edge lost or told twice, a slot of another tree, a draw of a neighbour."""

from __future__ import annotations

from mutants.mutant import Mutant

_EXCLUDED = "tests/ops/sampling/test_excluded.py::"
_NEGATIVES = "tests/ops/sampling/test_negatives.py::"
_BY_TREE = "tests/ops/sampling/test_excluded_by_tree.py::"
_PER_SEED = "tests/behaviour/stages/test_exclude_per_seed.py::"
_EXCLUDE = "tests/behaviour/stages/test_exclude_seed_edges.py::"

LINKS_ON_GPU = (
    Mutant(
        "cuda/kernels/find_edges.cu",
        "wanted[k] == id;",
        "wanted[k] >= id;",
        _EXCLUDED + "test_of_edges_between_a_pair_the_one_that_is_wanted_is_found",
    ),
    Mutant(
        "cuda/kernels/find_edges.cu",
        "(i > 0 && rows[i] == rows[i - 1])) return;",
        "false) return;",
        _EXCLUDED + "test_many_sources_of_one_row_are_found",
    ),
    Mutant(
        "cuda/find_edges.py",
        "if size > len(positions):",
        "if size < 0:",
        _EXCLUDED + "test_a_pair_may_have_many_edges",
    ),
    Mutant(
        "cuda/kernels/excluded.cu",
        "if (slots_of_gaps != nullptr) {",
        "if (slots_of_gaps != nullptr && slots == nullptr) {",
        _BY_TREE + "test_a_hop_equals_the_reference_tree_by_tree",
    ),
    Mutant(
        "cuda/kernels/negatives.cu",
        "if (position < stop) found",
        "if (position + 1 < stop) found",
        _NEGATIVES + "test_the_one_node_that_is_left_is_always_found[cuda_host-uniform]",
    ),
    Mutant(
        "cuda/kernels/negatives.cu",
        "is_left &= !(joined && lane == whose);",
        "is_left &= !joined;",
        "tests/cuda_host/test_schedules.py::test_all_have_the_bits_of_the_cpu[negatives without edges]",
    ),
    Mutant(
        "pipeline/lowered/_negatives.py",
        "longer = self.before(more)",
        "longer = self.before(more) - 1",
        _PER_SEED + "test_negatives_are_asked_of_the_graph_of_their_pair",
    ),
    Mutant(
        "pipeline/passes/sample_on_cpu.py",
        "machine.world_size == 1 or stage.num_hops > 0",
        "machine.world_size == 1 or stage.num_hops > 0 or True",
        "tests/behaviour/passes/test_sample_on_cpu.py::test_ranks_that_exchange_ids_begin_pairs_and_trees_on_the_cpu",
    ),
)
