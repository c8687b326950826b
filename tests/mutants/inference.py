"""Faults in layer-wise inference."""

from __future__ import annotations

from mutants.mutant import Mutant

_INFERENCE = "tests/behaviour/models/inference/test_inference.py::"
_REFUSALS = "tests/behaviour/models/inference/test_refusals.py::"
_TYPED = "tests/behaviour/models/inference/test_typed.py::"

INFERENCE = (
    Mutant(
        "pipeline/models/inference/run.py",
        "out = out[batch.seed_index]",
        "out = out[: batch.num_seeds]",
        _INFERENCE + "test_rows_of_some_nodes",
    ),
    Mutant(
        "pipeline/models/inference/run.py",
        "every = {}",
        "pass",
        _INFERENCE + "test_no_nodes_have_no_rows",
    ),
    Mutant(
        "pipeline/models/inference/run.py",
        "rows = Rows(kept, returned[number].by_type)",
        "pass",
        _INFERENCE + "test_layers_are_passed_and_rows_may_have_any_shape",
    ),
    Mutant(
        "pipeline/models/inference/layers.py",
        "rows[kind] = of_kind[:num_dst]",
        "rows[kind] = of_kind[-num_dst:]",
        _TYPED + "test_peers_10_layers_by_relation_equal_the_whole_graphs[sage]",
    ),
    Mutant(
        "pipeline/models/inference/rows.py",
        "put_rows(h, batch.types.places(kind), of_kind)",
        "put_rows(h, slice(len(of_kind)), of_kind)",
        _TYPED + "test_peers_10_rgcn_equals_the_whole_graphs",
    ),
    Mutant(
        "pipeline/models/inference/run.py",
        "rows = Rows(kept, returned[number].by_type)",
        "rows = Rows(kept, rows.by_type)",
        _TYPED + "test_types_without_features_are_looked_up_by_their_ids",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "(telling_nodes(graph, number) for number in full[:MOST_TRIALS])",
        "(telling_nodes(graph) for number in full[:1])",
        _TYPED + "test_layers_that_count_degrees_in_the_batch",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "[*nodes[1:], *_of_other_types(batches.graph, nodes)]",
        "nodes[1:]",
        _TYPED + "test_peers_10_layers_by_relation_equal_the_whole_graphs[sage]",
    ),
    Mutant(
        "pipeline/models/inference/outputs.py",
        "files.move(draft)",
        "files.move(out)",
        _TYPED + "test_peers_10_layers_by_relation_equal_the_whole_graphs[sage]",
    ),
    Mutant(
        "pipeline/models/inference/layers.py",
        "part.training = training",
        "part.training = True",
        _INFERENCE + "test_modes_are_restored_and_nothing_has_gradients",
    ),
    Mutant(
        "pipeline/models/inference/rows.py",
        "num_threads=self.num_threads, rank=0, world_size=1",
        "num_threads=self.num_threads",
        _INFERENCE + "test_in_a_job_of_several_ranks_one_of_them_computes_all",
    ),
    Mutant(
        "pipeline/models/inference/outputs.py",
        'mmap_mode="c"',
        'mmap_mode="r+"',
        _INFERENCE + "test_a_file_that_is_mapped_may_be_written_to_and_stays_as_it_is",
    ),
    Mutant(
        "pipeline/models/inference/outputs.py",
        'self._draft / f"layer_',
        'self._place.parent / f"layer_',
        _REFUSALS + "test_an_interruption_leaves_what_was_there",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "if not _alike(out, out_alone, kind, place):",
        "if False:",
        _REFUSALS + "test_layers_whose_rows_depend_on_the_batch",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "[*others[:1], node, *others[1:]]",
        "[node, *others]",
        _REFUSALS + "test_layers_that_read_rows_by_their_position[first]",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "(_counts(source, source) < 2).long()",
        "0",
        "tests/pipeline/models/inference/test_trial.py::test_nodes_of_the_trial",
    ),
    Mutant(
        "pipeline/models/inference/rows.py",
        "_check_one_argument_each(graph, names)\n    return names",
        "return names",
        _TYPED + "test_names_of_edge_features_that_are_one_argument",
    ),
)
