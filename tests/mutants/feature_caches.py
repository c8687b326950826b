"""Faults in caches of features on a GPU: who makes room, what is known of reads to come, what waits for what."""

from __future__ import annotations

from mutants.mutant import Mutant

_INDEX = "tests/ops/cache/test_set_index.py::"
_FEATURE = "tests/cuda_host/test_gpu_cached_feature.py::"
_PLANS = "tests/cuda_host/test_gpu_cache.py::"
_OWN = "tests/pipeline/storage/test_own_sources.py::"
_PASSES = "tests/pipeline/passes/test_feature_cache.py::"
_AGREES = _INDEX + "test_long_skewed_traces_under_another_schedule_each"

FEATURE_CACHES = (
    Mutant("cuda/kernels/cache.cu", "if (filled_by != kNone) fills[filled_by] = kNone;", "", _AGREES),
    Mutant("cuda/kernels/cache.cu", "!(keeps_found != 0 && last == now && filled_by == kNone);", "true;", _AGREES),
    Mutant(
        "cuda/kernels/cache.cu",
        "stamp >> kExpectedBits == now ? static_cast",
        "stamp != 0 ? static_cast",
        _INDEX + "test_expectations_of_another_read_are_forgotten",
    ),
    Mutant(
        "cuda/kernels/cache.cu",
        "k < begin[set] + kMostMissing; k += kWarp",
        "k < begin[set] + kWarp; k += kWarp",
        _INDEX + "test_of_very_many_missing_ids_of_a_set_the_first_ones_compete",
    ),
    Mutant(
        "cuda/cache.py", "in reversed(list(enumerate(expected[:MOST_EXPECTED]))):", "in enumerate(expected):", _AGREES
    ),
    Mutant(
        "cuda/cache.py",
        "in_order()\n        set_of",
        "set_of",
        _FEATURE + "test_reads_on_two_streams_wait_for_each_other",
    ),
    Mutant(
        "ops/features/on_gpu.py",
        "fill_cache(cache, fills, out)",
        "pass",
        _FEATURE + "test_reads_are_plain_indexing_and_counts_are_those_of_the_oracle",
    ),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "self._last_use.wait()\n        use_here",
        "use_here",
        _FEATURE + "test_reads_on_two_streams_wait_for_each_other",
    ),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "self.forget()  # nobody",
        "pass  # nobody",
        _FEATURE + "test_a_source_that_fails_midway_leaves_the_cache_right",
    ),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "del self._expected[place]",
        "",
        _FEATURE + "test_what_is_expected_is_kept",
    ),
    Mutant(
        "pipeline/storage/reads_ahead.py",
        "return source.foresight > 0 and source.foresees(to)",
        "return source.foresight > 0",
        _PASSES + "test_a_fetch_in_cpu_memory_looks_ahead_for_no_cache_on_a_gpu",
    ),
    Mutant(
        "pipeline/lowered/expect_rows.py",
        "self._source.expect_nothing()",
        "pass",
        _PLANS + "test_nothing_is_expected_behind_an_iteration",
    ),
    Mutant(
        "pipeline/storage/features.py",
        "source = in_contract(given, name)",
        "source = given",
        _OWN + "test_rows_on_disk_get_a_cache_and_reads_ahead",
    ),
    Mutant(
        "pipeline/storage/feature_source.py",
        'hasattr(adapted.given, "read_into")',
        "True",
        _OWN + "test_answers_that_are_not_given_have_defaults",
    ),
    Mutant(
        "pipeline/storage/feature_source.py",
        'rows is not None and place.kind == "cuda" and self.place == CPU and',
        'rows is not None and place.kind == "cuda" and',
        "tests/behaviour/passes/test_uva_gather.py::test_refuses_other_devices_and_rows_on_disk",
    ),
    Mutant(
        "pipeline/storage/feature_source.py",
        'if name != "_pinned"}',
        "}",
        _OWN + "test_a_source_that_was_pinned_can_be_copied",
    ),
    Mutant(
        "pipeline/passes/tiered_cache.py",
        "return source.rows_in_place is None or ",
        "return ",
        _OWN + "test_rows_on_disk_get_a_cache_and_reads_ahead",
    ),
    Mutant("pipeline/passes/feature_cache.py", " // len(fetches)", "", _PASSES + "test_features_share_one_budget"),
    Mutant(
        "pipeline/passes/feature_cache.py",
        "machine.memory_of_gpu(place.index)",
        "machine.memory_of_gpu(0)",
        _PASSES + "test_fires_for_the_gpu_of_the_copy",
    ),
    Mutant(
        "pipeline/storage/gpu_cached_feature.py",
        "kept.wait()  # kernels may yet read the rows that are changed",
        "pass",
        "tests/cuda_host/test_rows_on_gpu.py::test_updates_wait_for_reads_that_are_on_their_way",
    ),
    Mutant(
        "pipeline/plan/rules.py",
        "stage.lowered or stage.keeps_ids_sound",
        "not stage.threads or stage.keeps_ids_sound",
        "tests/behaviour/passes/test_uva_gather.py::test_nobody_looks_at_ids_that_are_known_to_have_rows",
    ),
)
