"""Faults in CUDA's kernels and in what launches them: barriers, atomic operations, ties, bounds, waits."""

from __future__ import annotations

from mutants.mutant import Mutant
from mutants.stand_in import STAND_IN

_PICKS = "tests/ops/sampling/test_picks.py::"
_SAMPLE = "tests/ops/sampling/test_sample.py::test_fused_equals_reference"
_RANGES = "tests/cuda_host/test_pinned_ranges.py::"
_PLANS = "tests/cuda_host/test_plans.py::"
_TYPED = "tests/ops/sampling/test_typed_hop.py::"
_TREES = "tests/ops/sampling/test_trees.py::"
_EXCLUDED = "tests/ops/sampling/test_excluded.py::"

CUDA = (
    *STAND_IN,
    Mutant(
        "cuda/compile.py",
        "[*OPTIONS, f",
        '[*OPTIONS, "-ftz=true", f',
        "tests/cuda_host/test_compile.py::test_numbers_are_rounded_as_by_the_cpu[attention.cu]",
    ),
    Mutant(
        "cuda/kernel_cache.py",
        "if _digest(found[_DIGEST_BYTES:]) == found[:_DIGEST_BYTES]:",
        "if found:",
        "tests/cuda_host/test_compile.py::test_compiled_kernels_are_kept",
    ),
    Mutant(
        "cuda/gpu.py",
        "if self._current_device() != self._index:",
        "if self._index < 0:",
        "tests/cuda_host/test_launch.py::test_launches_on_a_gpu_that_is_not_current",
    ),
    Mutant(
        "cuda/gpu.py",
        "self._threads = threading.local()",
        "self._threads = type('Threads', (), {})()",
        "tests/cuda_host/test_launch.py::test_threads_do_not_share_the_memory_of_arguments",
    ),
    Mutant(
        "cuda/kernels/segments.cu",
        "const bool fits = size <= room;",
        "const bool fits = size <= room || room >= 0;",
        "tests/cuda_host/test_sizes.py::test_blocks_are_those_of_the_cpu_after_any_others",
    ),
    Mutant(
        "cuda/sizes.py",
        "if any(size > room for size, room",
        "if any(size < 0 for size, room",
        "tests/cuda_host/test_sizes.py::test_blocks_are_those_of_the_cpu_after_any_others",
    ),
    Mutant(
        "cuda/kernels/importance.cu",
        "kConverged * size(place - 2)",
        "kConverged * size(place - 1)",
        "tests/cuda_host/test_importance.py::test_schedules_change_nothing",
    ),
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
        _PICKS + "test_large_fanouts_use_another_duplicate_check",
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "atomicMin(table.place(slot), static_cast<std::uint64_t>(*num_seen + e));",
        "*table.place(slot) = static_cast<std::uint64_t>(*num_seen + e);",
        _SAMPLE,
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "before > i ? before : i",
        "before > i ? i : before",
        "tests/ops/sampling/test_compact.py::test_compactor_refuses_what_is_no_node",
    ),
    Mutant(
        "cuda/kernels/compact.cu",
        "if (id == kFree) return static_cast<std::int64_t>(num_slots);",
        "",
        "tests/ops/sampling/test_compact.py::test_ids_may_be_any_integers",
    ),
    Mutant(
        "cuda/blocks.py",
        "if num_ids[-1] >= numbering.num_slots:",
        "if num_ids[-1] > numbering.num_slots + 1:",
        "tests/cuda_host/test_sizes.py::test_a_table_that_hops_fill_is_made_anew",
    ),
    Mutant(
        "cuda/kernels/pick_weighted.cu",
        "for (int other = 0; other < group_.rank; ++other)",
        "for (int other = group_.rank / kWarp * kWarp; other < group_.rank; ++other)",
        "tests/cuda_host/test_weighted.py::test_a_hub[torch.int64-40-torch.float64]",
    ),
    Mutant(
        "cuda/kernels/segments.cuh",
        "times[middle] <= bound",
        "times[middle] < bound",
        "tests/ops/sampling/test_segments.py::test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/segments.cuh",
        "numbers[middle] < low",
        "numbers[middle] <= low",
        "tests/ops/sampling/test_segments.py::test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/typed_hop.cu",
        "if (!relation.ends_in(node)) return;",
        "",
        _TYPED + "test_typed_hop_equals_reference",
    ),
    Mutant(
        "cuda/kernels/typed_hop.cu",
        "slots_of_rows[s] = slots[i];",
        "slots_of_rows[s] = slots[0];",
        _TYPED + "test_slots_and_bounds_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/typed_hop.cu",
        "weights == nullptr ? 1.0F",
        "weights == nullptr ? 2.0F",
        _TYPED + "test_typed_hop_equals_reference",
    ),
    Mutant(
        "cuda/kernels/typed_hop.cu",
        "joined[places[s] + k]",
        "joined[first[s] + k]",
        _TYPED + "test_typed_hop_equals_reference",
    ),
    Mutant(
        "cuda/rules.py",
        "rule if rule.per_destination else relation",
        "rule",
        _TYPED + "test_typed_hop_equals_reference",
    ),
    Mutant(
        "cuda/kernels/trees.cu",
        "if (!is_tree) report(faults, kNoTree, i);",
        "",
        _TREES + "test_refusals",
    ),
    Mutant(
        "cuda/kernels/trees.cu",
        "streams == nullptr ? slot : streams[slot]",
        "streams == nullptr ? slot : streams[0]",
        _TREES + "test_trees_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/trees.cu",
        "& ~node_mask(bits)",
        "& node_mask(bits)",
        _TREES + "test_trees_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/trees.cu",
        "lows_here[i] = lows[slot];",
        "lows_here[i] = bounds[slot];",
        _TREES + "test_draws_by_weight_in_a_window",
    ),
    Mutant(
        "cuda/kernels/excluded.cu",
        "count_before(gaps + first, count, starts[i]);",
        "count_before(gaps + first, count, starts[i] + 1);",
        _EXCLUDED + "test_a_hop_equals_the_reference_without_the_edges",
    ),
    Mutant(
        "cuda/kernels/excluded.cu",
        "gaps[middle] - start - middle <= offset",
        "gaps[middle] - start - middle < offset",
        _EXCLUDED + "test_a_hop_equals_the_reference_without_the_edges",
    ),
    Mutant(
        "cuda/rules.py",
        "graph=graph, numbers=None if picking.numbers is None else EdgeNumbers()",
        "graph=graph",
        _EXCLUDED + "test_tables_of_whole_rows_do_not_hold_of_what_is_left",
    ),
    Mutant(
        "cuda/excluded.py",
        "times=None, sums=None",
        "times=None",
        _EXCLUDED + "test_tables_of_whole_rows_do_not_hold_of_what_is_left",
    ),
    Mutant(
        "ops/sampling/find_edges_on_gpu.py",
        "positions, order = positions.sort()",
        "order = positions.sort().indices",
        _EXCLUDED + "test_rows_come_in_any_order",
    ),
    Mutant(
        "pipeline/lowered/_excluded.py",
        "return exclude.find(graph, pairs, settings",
        "return exclude.find(graph, pairs[1:], settings",
        _PLANS + "test_edges_of_a_type_are_left_out_on_the_gpu",
    ),
    Mutant(
        "ops/sampling/fused_on_gpu.py",
        "EdgeNumbers() if in_windows else self._numbers.here()",
        "self._numbers.here()",
        _TREES + "test_repeats_are_counted_from_where_a_window_begins",
    ),
    Mutant(
        "ops/sampling/fused_on_gpu.py",
        "if by_weight and not in_windows and any",
        "if by_weight and any",
        _TREES + "test_draws_by_weight_in_a_window",
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
    Mutant(
        "cuda/owners.py",
        "[*others[:first], own, *others[first:]]",
        "[own, *others]",
        "tests/ops/partition/test_owners.py::test_grouping",
    ),
    Mutant(
        "cuda/owners.py",
        "owners + (owners < first)",
        "owners + 1",
        "tests/ops/partition/test_owners.py::test_grouping",
    ),
    Mutant(
        "pipeline/partition/device_copies.py",
        "if at not in self._copies:",
        "if True:",
        "tests/behaviour/partition/test_partition.py::test_tables_are_copied_to_a_device_once",
    ),
    Mutant(
        "ops/gpu_memory.py",
        "return numbers if len(set(numbers)) == len(numbers) else []",
        "return numbers",
        "tests/ops/core/test_gpu_memory.py::test_gpus_are_those_that_cuda_shows_in_its_order",
    ),
    Mutant(
        "ops/gpu_memory.py",
        "if not in_order and len",
        "if len",
        "tests/ops/core/test_gpu_memory.py::test_different_gpus_may_have_other_numbers_in_cuda",
    ),
    Mutant("pipeline/lowered/gpu/on_stream.py", "self.event.wait()", "", _PLANS + "test_a_missing_wait_is_found"),
    Mutant(
        "cuda/streams.py",
        "stand_in.synchronize()",
        "",
        "tests/cuda_host/test_tiers_on_gpu.py::test_a_plan_reads_through_them",
    ),
    Mutant(
        "cuda/pinned_ranges.py",
        "if begin < one.end and one.begin < end:",
        "if False:",
        _RANGES + "test_a_part_of_which_something_is_pinned_is_refused",
    ),
    Mutant(
        "cuda/pinned_ranges.py",
        "        finally:\n            self._unpin_unwanted()\n",
        "        finally:\n            pass\n",
        _RANGES + "test_a_destructor_that_runs_while_memory_is_pinned",
    ),
    Mutant(
        "cuda/memory.py",
        "tensor.untyped_storage()",
        "tensor.clone().untyped_storage()",
        _RANGES + "test_views_of_one_array_do_not_unpin_each_other",
    ),
    Mutant(
        "cuda/streams.py",
        "        event.wait()\n",
        "",
        "tests/cuda_host/test_streams.py::test_streams_wait_for_a_table_that_another_one_makes",
    ),
    Mutant(
        "pipeline/lowered/gpu/on_stream.py",
        "behind_current=in_the_making",
        "behind_current=False",
        "tests/cuda_host/test_streams.py::test_copies_from_the_host_do_not_wait_for_the_training_loop",
    ),
    Mutant(
        "pipeline/run/lower.py",
        "[*take], len(take)",
        "[], 0",
        "tests/pipeline/run/test_hand_over.py::test_the_training_loop_waits_for_what_workers_launched",
    ),
    Mutant(
        "cuda/edge_numbers.py",
        "max(fitting, row + 1)",
        "max(fitting, len(starts))",
        "tests/cuda_host/test_edge_numbers.py::test_few_edges_are_sorted_at_once",
    ),
    Mutant(
        "pipeline/storage/tiered_feature.py",
        "ids[away].long()",
        "row[away]",
        "tests/cuda_host/test_tiers_on_gpu.py::test_rows_that_were_moved_are_read_to_the_cpu_from_the_source",
    ),
    Mutant(
        "cuda/kernels/copy_row.cuh",
        "held[read] = __ldg(from + at);",
        "held[read] = from[at];",
        "tests/cuda_host/test_machine_code.py::test_a_gather_has_several_reads_on_their_way",
    ),
    Mutant(
        "cuda/kernels/copy_row.cuh",
        "if (at >= 0 && at < num_words) to[at] = held[read];",
        "if (at > 0 && at < num_words) to[at] = held[read];",
        "tests/ops/features/test_gather.py::test_widths_around_cache_lines_and_pages",
    ),
    Mutant(
        "cuda/kernels/group.cuh",
        "i < first + WarpGroup::kPerBlock; ++i) {",
        "i < first + 1; ++i) {",
        "tests/cuda_host/test_schedules.py::test_all_have_the_bits_of_the_cpu[labor of hubs]",
    ),
)
