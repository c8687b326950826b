"""Faults in layer-wise inference."""

from __future__ import annotations

from mutants.mutant import Mutant

_INFERENCE = "tests/pipeline/models/inference/test_inference.py::"
_REFUSALS = "tests/pipeline/models/inference/test_refusals.py::"

INFERENCE = (
    Mutant(
        "pipeline/models/inference/run.py",
        "out = out[batch.seed_index]",
        "out = out[: batch.num_seeds]",
        _INFERENCE + "test_rows_of_some_nodes",
    ),
    Mutant(
        "pipeline/models/inference/run.py",
        "rows = kept = outputs.keep",
        "kept = outputs.keep",
        _INFERENCE + "test_layers_are_passed_and_rows_may_have_any_shape",
    ),
    Mutant(
        "pipeline/models/inference/layers.py",
        "part.training = training",
        "part.training = True",
        _INFERENCE + "test_modes_are_restored_and_nothing_has_gradients",
    ),
    Mutant(
        "pipeline/models/inference/batches.py",
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
        'self._path.parent / f"layer_',
        _REFUSALS + "test_an_interruption_leaves_what_was_there",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "if not _alike(out[:1], out_alone):",
        "if False:",
        _REFUSALS + "test_layers_whose_rows_depend_on_the_batch",
    ),
    Mutant(
        "pipeline/models/inference/trial.py",
        "(out_degrees[inverse] < 2).long()",
        "0",
        _REFUSALS + "test_nodes_of_the_trial",
    ),
)
