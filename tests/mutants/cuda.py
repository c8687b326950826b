"""Faults in CUDA's kernels and in what launches them: barriers, atomic operations, ties, bounds, waits."""

from __future__ import annotations

from mutants.mutant import Mutant

_PICKS = "tests/ops/sampling/test_picks.py::"
_SAMPLE = "tests/ops/sampling/test_sample.py::test_fused_equals_reference"
_PLANS = "tests/cuda_host/test_plans.py::"

CUDA = (
    Mutant(
        "cuda/kernels/smallest.cuh",
        "group.sync();\n    for (std::int64_t i = group.rank; i < count",
        "for (std::int64_t i = group.rank; i < count",
        "tests/cuda_host/test_smallest.py::test_it_chooses_what_sorting_chooses",
    ),
    Mutant(
        "cuda/kernels/smallest.cuh",
        "value <= limit.key;",
        "value < limit.key;",
        "tests/cuda_host/test_smallest.py::test_it_chooses_what_sorting_chooses",
    ),
    Mutant(
        "cuda/kernels/pick_uniform.cu",
        "position = starts[i] + last;",
        "position = starts[i] + last - 1;",
        _PICKS + "test_without_replacement_edges_are_distinct",
    ),
    Mutant(
        "cuda/kernels/compact.cu", "atomicMin(places + slot, *num_seen + i);", "places[slot] = *num_seen + i;", _SAMPLE
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "if (id == kFree) return std::int64_t{1} << bits;",
        "",
        "tests/ops/sampling/test_compact.py::test_ids_may_be_any_integers",
    ),
    Mutant(
        "cuda/kernels/segments.cu",
        "times[middle] <= bound",
        "times[middle] < bound",
        "tests/ops/sampling/test_segments.py::test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/copy_row.cuh",
        "word = lane - in_line;",
        "word = lane;",
        "tests/ops/features/test_gather.py::test_widths_around_cache_lines_and_pages",
    ),
    Mutant(
        "cuda/kernels/gather.cu",
        "found(position % num_devices, replicated",
        "found(position % num_devices, 0",
        "tests/ops/features/test_tiers.py::test_rows_are_found_as_by_the_reference",
    ),
    Mutant(
        "cuda/kernels/scatter.cu",
        "if (i != 0 && sorted[i - 1] == id) return;",
        "",
        "tests/ops/features/test_scatter.py::test_equals_the_reference",
    ),
    Mutant("pipeline/lowered/on_stream.py", "coming.event.wait()", "", _PLANS + "test_a_missing_wait_is_found"),
    Mutant(
        "cuda/streams.py",
        "stand_in.record()()",
        "",
        "tests/cuda_host/test_tiers_on_gpu.py::test_a_plan_reads_through_them",
    ),
    Mutant(
        "pipeline/passes/sample_on_cpu.py",
        "and machine.world_size == 1",
        "",
        "tests/pipeline/passes/test_sample_on_cpu.py::test_ranks_that_share_a_batch_sample_on_the_cpu",
    ),
    Mutant(
        "cuda/memory.py",
        "if error.status == _ALREADY:",
        "if error.status == _NOT_PINNED:",
        "tests/cuda_host/test_memory.py::test_memory_that_is_pinned_already_stays_so",
    ),
)
