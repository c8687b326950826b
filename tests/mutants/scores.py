"""Faults in scores of nodes and in graphs that were reordered."""

from __future__ import annotations

from mutants.mutant import Mutant

_REACH = "tests/behaviour/scores/test_reach.py::"
_SPREAD = "tests/ops/graphs/test_spread.py::"
_SCORES = "tests/behaviour/scores/test_scores.py::"
_REORDER = "tests/pipeline/storage/test_reordering.py::"

SCORES = (
    Mutant(
        "ops/native/graphs/spread.cpp",
        "last += source - low < size ? 1 : 0;",
        "last += source - low <= size ? 1 : 0;",
        _SPREAD + "test_many_edges_on_many_threads",
    ),
    Mutant(
        "ops/native/graphs/spread.cpp",
        "if (last == kPending) add_pending();\n  });\n  add_pending();",
        "if (last == kPending) add_pending();\n  });",
        _SPREAD + "test_many_edges_on_many_threads",
    ),
    Mutant(
        "ops/native/graphs/spread.cpp",
        "state.by_now += value.pick * value.there * (1 - state.any_there);",
        "state.by_now += value.pick * value.there;",
        _SPREAD + "test_chances_are_those_of_drawn_frontiers",
    ),
    Mutant(
        "ops/graphs/spread.py",
        "torch.from_numpy(by_row.copy()), descending=True",
        "torch.from_numpy(by_row.copy()), descending=False",
        _SPREAD + "test_chances_are_those_of_drawn_frontiers",
    ),
    Mutant(
        "pipeline/scores/reverse_pagerank.py",
        "start[labelled] *= num_nodes / len(labelled)",
        "start[labelled] *= 1",
        _SCORES + "test_scores_are_their_formulas",
    ),
    Mutant(
        "pipeline/scores/inclusion.py",
        "loader.set_epoch(LAST_EPOCH - back)",
        "loader.set_epoch(back)",
        _SCORES + "test_a_profile_is_of_batches_that_are_not_trained_on",
    ),
    Mutant(
        "pipeline/storage/reordering.py",
        "sources[name] = ReorderedRows(rows, rank) if original_ids else rows",
        "sources[name] = ReorderedRows(rows, order) if original_ids else rows",
        _REORDER + "test_rows_in_memory_move_and_those_on_disk_stay",
    ),
    Mutant(
        "pipeline/lowered/translate_ids.py",
        "return (ToGraphIds(graph), *stages, ToOriginalIds(graph))",
        "return (*stages, ToOriginalIds(graph))",
        _REORDER + "test_every_sampler_gives_edges_of_the_graph_by_original_ids",
    ),
    Mutant(
        "pipeline/stages/saint_walk.py",
        "roots = graph.to_graph_ids(batch.n_id)",
        "roots = batch.n_id",
        _REORDER + "test_both_ways_draw_the_same[saint_walk]",
    ),
    Mutant(
        "pipeline/scores/reach.py",
        "picked = picked + waiting * picks",
        "picked = waiting * picks",
        _REACH + "test_a_star_of_one_seed_is_its_formula",
    ),
    Mutant(
        "pipeline/scores/reach.py",
        "(max(widest, rule, key=_wanted), arrived)",
        "(widest, arrived)",
        _REACH + "test_fanouts_that_grow_let_nodes_of_before_reach_more",
    ),
    Mutant(
        "pipeline/scores/inclusion.py",
        "torch.log1p(-(batch_size / left)",
        "torch.log1p(-(batch_size / num_items / torch.ones_like(left))",
        "tests/behaviour/scores/test_inclusion.py::test_seeds",
    ),
)
