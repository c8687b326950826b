"""Faults in where rows lie and how they are read: tiers, windows of batches, caches that passes put in."""

from __future__ import annotations

from mutants.mutant import Mutant

_TIERS = "tests/ops/features/test_tiers.py::"
_BUDGETS = "tests/behaviour/run/test_cache_budgets.py::"
_ROOM = "tests/pipeline/run/test_room_ahead.py::"
_PEERS = "tests/behaviour/storage/test_peers.py::"
_LOOKAHEAD = "tests/behaviour/passes/test_lookahead.py::"

TIERS = (
    Mutant(
        "ops/features/shared_rows.py",
        "    return rows.view(tuple(shape))",
        "    return rows.view(tuple(shape)).clone()",
        "tests/pipeline/storage/test_peers.py::test_memory_is_shared_and_given_back",
    ),
    Mutant(
        "pipeline/storage/peers.py",
        "        if ended:\n",
        "        if not self._pids:\n",
        _PEERS + "test_a_rank_that_has_ended_is_named",
    ),
    Mutant(
        "pipeline/storage/peers.py",
        'if "failed" in one:',
        'if "failure" in one:',
        _PEERS + "test_a_rank_that_cannot_copy_its_rows_is_named",
    ),
    Mutant(
        "pipeline/storage/peers.py",
        "min(of_all) for of_all",
        "max(of_all) for of_all",
        _PEERS + "test_a_plan_for_the_ranks_of_a_machine",
    ),
    Mutant(
        "pipeline/storage/tiered_feature.py",
        "self._on_gpu, self._tables, self._shared = None, None, []",
        "self._on_gpu, self._tables = None, None",
        "tests/pipeline/storage/test_peers.py::test_memory_is_shared_and_given_back",
    ),
    Mutant(
        "cuda/memory.py",
        'if segment.get("is_expandable") and 0 <= address',
        'if segment.get("is_expandable") and 0 < address',
        "tests/cuda_host/test_memory.py::test_expandable_segments_are_not_shared",
    ),
    Mutant(
        "ops/native/features/tiers.cpp",
        "tiers.replicated + position / tiers.num_devices",
        "position / tiers.num_devices",
        _TIERS + "test_rows_are_found_as_by_the_reference",
    ),
    Mutant(
        "ops/native/features/tiers.cpp",
        "if (position < tiers.replicated) return found(here, position);",
        "if (position <= tiers.replicated) return found(here, position);",
        _TIERS + "test_the_boundaries_between_tiers",
    ),
    Mutant(
        "ops/native/features/tiers.cpp",
        "places == nullptr ? i :",
        "true ? i :",
        _TIERS + "test_one_gather_reads_all_tables",
    ),
    Mutant(
        "pipeline/storage/tiers.py",
        "sizes.replicated + place : first_of_host",
        "sizes.replicated : first_of_host",
        "tests/behaviour/storage/test_tiered_feature.py::"
        "test_every_device_has_the_replicated_rows_and_its_share_of_the_next",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "torch.argsort(hits, descending=True, stable=True)",
        "torch.argsort(hits, stable=True).flip(0)",
        "tests/behaviour/plan/test_plan_tiers.py::test_of_nodes_with_one_score_the_first_is_the_hottest",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "if time < least:",
        "if time <= least:",
        "tests/behaviour/plan/test_plan_tiers.py::test_of_numbers_with_one_time_the_fewest_rows_are_replicated",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "own = hottest + (placed - hottest) / num_devices",
        "own = placed",
        "tests/behaviour/plan/test_plan_tiers.py::test_rows_are_replicated_as_far_as_that_saves_time",
    ),
    Mutant(
        "pipeline/run/window_node.py",
        "        self._runner.clear()\n",
        "",
        _LOOKAHEAD + "test_expects_every_read_a_window_ahead",
    ),
    Mutant(
        "pipeline/run/nodes.py",
        "drawn(self._name, batch, self.get_state(), start)",
        'drawn(self._name, batch, {**self.get_state(), "source": {"batch": 3}}, start)',
        _LOOKAHEAD + "test_resumes_behind_the_batch_that_left_the_window",
    ),
    Mutant(
        "pipeline/run/window_node.py",
        "for _ in range(MOST_ENTERING):",
        "for _ in range(99):",
        _LOOKAHEAD + "test_expects_every_read_a_window_ahead",
    ),
    Mutant(
        "pipeline/storage/reads_ahead.py",
        "self._wanted.popleft()",
        "self._wanted.pop()",
        _LOOKAHEAD + "test_same_result",
    ),
    Mutant(
        "pipeline/storage/reads_ahead.py",
        " / (1 + before.num_reads)",
        "",
        "tests/pipeline/passes/test_lookahead.py::test_a_window_is_read_piece_by_piece_while_another_one_leaves",
    ),
    Mutant(
        "pipeline/lowered/fetch_ahead.py",
        "self._bytes_in_view // 2 or",
        "self._bytes_in_view * 2 or",
        "tests/pipeline/passes/test_lookahead.py::test_windows_end_where_half_of_the_memory_is_taken",
    ),
    Mutant(
        "pipeline/passes/lookahead.py",
        "bare if too_large else",
        "bare if True else",
        "tests/behaviour/passes/test_tiered_cache.py::test_a_cache_of_all_rows_stays_and_looks_at_nothing_ahead",
    ),
    Mutant(
        "pipeline/passes/tiered_cache.py",
        "budget = machine.share(SHARE)",
        "budget = machine.memory",
        "tests/behaviour/passes/test_tiered_cache.py::test_fires_for_rows_on_disk_that_do_not_fit_in_memory",
    ),
    Mutant(
        "pipeline/passes/tiered_cache.py",
        "machine.share(SHARE) // len(fetches)",
        "machine.share(SHARE)",
        _BUDGETS + "test_fetches_of_one_plan_share_a_budget",
    ),
    Mutant(
        "pipeline/plan/machine.py",
        "promised=promised().num_bytes,",
        "",
        _BUDGETS + "test_each_loader_gets_half_of_what_is_left_and_all_together_half_of_the_memory",
    ),
    Mutant(
        "pipeline/plan/machine.py",
        "[shared // ranks - given.unfilled]",
        "[shared // ranks]",
        _BUDGETS + "test_each_loader_gets_half_of_what_is_left_and_all_together_half_of_the_memory",
    ),
    Mutant(
        "pipeline/storage/array_file.py",
        "dtype_to_descr(numpy_dtype(dtype))",
        "dtype_to_descr(bits_dtype(stored))",
        "tests/behaviour/storage/test_narrow_dtypes.py::test_inference_into_a_file_and_back",
    ),
    Mutant(
        "pipeline/data/narrow_dtypes.py",
        "found.itemsize != dtype.itemsize",
        "found.itemsize > dtype.itemsize",
        "tests/pipeline/storage/test_narrow_dtypes.py::test_records_of_other_names_or_sizes_are_none_of_them",
    ),
    Mutant(
        "pipeline/storage/cached_feature.py",
        "if capacity == 0 and source.num_rows:",
        "if False:",
        "tests/behaviour/storage/test_options_of_caches.py::test_a_budget_that_holds_no_row_is_refused",
    ),
    Mutant(
        "pipeline/data/ranking.py",
        "values.is_floating_point() and bool(",
        "False and bool(",
        "tests/behaviour/storage/test_options_of_caches.py::"
        "test_scores_that_are_no_numbers_are_refused_and_others_decide",
    ),
    Mutant(
        "pipeline/distributed/job.py",
        "return max(world_size or 1, of_job)",
        "return world_size or 1",
        "tests/pipeline/plan/test_machine.py::test_without_a_launcher_the_ranks_of_the_process_group_share_the_memory",
    ),
    Mutant(
        "ops/memory_limit.py",
        "taken - _droppable(folder",
        "taken - 0 * _droppable(folder",
        "tests/ops/core/test_memory_limit.py::test_other_processes_of_a_group_take_room_and_pages_of_files_take_none",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "graph.by_original_ids(out_degrees)",
        "out_degrees",
        "tests/behaviour/plan/test_plan_tiers.py::test_out_degrees_are_those_of_the_ids_that_features_go_by",
    ),
    Mutant(
        "pipeline/storage/reordering.py",
        'gather_rows(self._order, as_ids(ids, "ids")), rows)',
        "ids, rows)",
        "tests/behaviour/storage/test_reordered_rows.py::test_rows_change_by_their_new_ids",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "if self.sizes.num_placed == 0:",
        "if False:",
        "tests/behaviour/plan/test_plan_tiers.py::test_the_table_says_why",
    ),
    Mutant(
        "pipeline/plan/plan_tiers.py",
        "if num_devices > 1 else (_STEPS,)",
        "if num_devices > 0 else (_STEPS,)",
        "tests/behaviour/plan/test_plan_tiers.py::test_the_table_says_why",
    ),
    Mutant(
        "ops/native/core/memory.cpp",
        "used_ + kept_ > most_used_ +",
        "kept_ > most_used_ +",
        "tests/ops/features/test_memory_pool.py::test_what_waits_and_what_is_used_are_no_more_than_was_used_at_once",
    ),
    Mutant(
        "pipeline/run/room_ahead.py",
        "(being_made + 1 + SPARE)",
        "(1 + SPARE)",
        _ROOM + "test_a_batch_needs_room_for_itself_and_those_that_are_being_made",
    ),
    Mutant(
        "pipeline/run/prefetch_node.py",
        "return holds_none or self._room is None or self._room.is_there(self._being_made)",
        "return True",
        _ROOM + "test_others_in_a_group_of_processes_take_the_room",
    ),
)
