"""Faults of what hops leave out by the ids of edges."""

from __future__ import annotations

from mutants.mutant import Mutant

_BY_ID = "tests/behaviour/stages/test_exclude_by_edge_id.py::"
_IDS = "pipeline/lowered/_seed_edge_ids.py"
_DOOR = "ops/sampling/find_edges.py"
_REFERENCE = "tests/pipeline/stages/test_exclude_by_edge_id.py::test_edges_are_those_of_the_reference"
_BATCHES = _BY_ID + "test_batches_are_those_of_a_graph_without_the_edges"
_TREES = _BY_ID + "test_each_tree_is_that_of_a_graph_without_its_own_edge"

EXCLUSION = (
    Mutant(
        "pipeline/lowered/_excluded.py",
        "wanted=None if ids is None else",
        "wanted=None if True else",
        _BATCHES + "[neighbor-False-True]",
    ),
    Mutant(
        _IDS, "if self.back is None else self.back\n", "if True else self.back\n", _BATCHES + "[neighbor-True-True]"
    ),
    Mutant(_DOOR, "kept = is_known & np.isin(meant, asked)", "kept = is_known", _TREES + "[neighbor-False]"),
    Mutant(
        _DOOR,
        "ids = positions if edge_ids is None else edge_ids[positions]",
        "ids = positions",
        "tests/pipeline/stages/test_exclude_by_edge_id.py::test_edges_are_those_of_the_reference[False]",
    ),
    Mutant(
        _DOOR,
        "None if entry_slots is None else entry_slots[full]",
        "None",
        "tests/pipeline/stages/test_exclude_by_edge_id.py::test_edges_are_those_of_the_reference[True]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "of_trees = None if ids is None else ids.take(pair_of)",
        "of_trees = ids",
        _BY_ID + "test_negatives_leave_out_the_edge_of_their_pair[seed-binary]",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "batch.item_index[: len(pairs)] if whole is None else whole",
        "batch.item_index[: len(pairs)]",
        _BY_ID + "test_ranks_leave_out_what_one_process_does[batch]",
    ),
    Mutant(
        "pipeline/stages/item_source.py",
        "mine[:1].expand(before), mine, mine[:1].expand(num_seeds - before - len(mine))",
        "mine, mine[:1].expand(num_seeds - len(mine))",
        "tests/behaviour/stages/test_items_per_rank.py::test_ranks_leave_out_the_edges_that_their_own_items_are[seed]",
    ),
    Mutant(
        _IDS,
        "_check_ends(graph, ids, pairs, refuse_item)",
        "pass",
        _BY_ID + "test_refuses_ids_of_other_edges",
    ),
    Mutant(
        _IDS,
        "_check_ends(graph, back, pairs.flip(1), refuse_reverse)",
        "pass",
        _BY_ID + "test_refuses_reverses_that_are_none[itself]",
    ),
    Mutant(
        _IDS,
        "own = graph.to_graph_ids(pairs.flatten()).view_as(pairs)",
        "own = pairs",
        _BY_ID + "test_a_graph_in_another_order_keeps_the_ids_of_edges",
    ),
    Mutant(
        _IDS,
        "ids - types.offsets[own] + first",
        "ids",
        _BY_ID + "test_types[True-batch]",
    ),
    Mutant(
        "pipeline/passes/typed_items.py",
        "ids = edge_ids_in_space(ids, source.items.types, edge_types)",
        "pass",
        _BY_ID + "test_types[False-batch]",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        "if source.seed_edge_ids is not None and (",
        "if False and (",
        _BY_ID + "test_refuses_ids_that_nothing_reads",
    ),
)
