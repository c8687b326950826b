"""Waits, events, kept memory and current devices, each left out or of another one where it is needed."""

from __future__ import annotations

from mutants.mutant import Mutant

_WAITS = "tests/cuda_host/test_waits.py::"
_LAUNCH = "tests/cuda_host/test_launch.py::"
_KEPT = _WAITS + "test_pinned_memory_is_kept_until_it_is_read"
_FILLED = _WAITS + "test_streams_wait_for_rows_that_another_one_fills_in"
_REWRITTEN = _WAITS + "test_rows_are_not_rewritten_before_they_are_read"
_READ = _WAITS + "test_the_host_waits_for_reads"
_EVENTS = _WAITS + "test_events_and_waits_are_of_the_current_stream"

_WAIT = "        self._last_use.wait()\n"


def _without_wait(file: str, before: str, test: str) -> Mutant:
    return Mutant(file, _WAIT + before, before, test)


_WHOLE, _SOME = "pipeline/storage/whole_on_gpu.py", "pipeline/storage/rows_on_gpu.py"

WAITS = (
    _without_wait(_WHOLE, "        use_here([self._rows])", _FILLED + "[whole]"),
    _without_wait(_WHOLE, "        self._is_filled = False", _REWRITTEN + "[whole]"),
    _without_wait(_WHOLE, "        synchronize(self._device)", _READ + "[whole]"),
    Mutant(_WHOLE, "        use_here([self._rows])\n", "", _FILLED + "[whole]"),
    _without_wait(_SOME, "        use_here([self._rows])", _FILLED + "[some]"),
    _without_wait(_SOME, "        self._index.clear()", _REWRITTEN + "[some]"),
    _without_wait(_SOME, "        synchronize(self._device)", _READ + "[some]"),
    Mutant(_SOME, "            one.event.wait()\n", "            pass\n", _WAITS + "test_reads_to_come_are_waited_for"),
    Mutant("cuda/cache.py", "        use_here((self.ids, self._used))\n", "", _REWRITTEN + "[some]"),
    Mutant(
        "ops/cache/line_cache.py",
        "            self._last_use.wait()\n",
        "",
        "tests/cuda_host/test_streams.py::test_what_a_side_stream_keeps_is_recorded_where_others_use_it[counts]",
    ),
    Mutant(
        "pipeline/storage/gpu_cached_feature.py",
        "                kept.wait()  # kernels may yet read the rows that are changed\n",
        "                pass\n",
        "tests/cuda_host/test_rows_on_gpu.py::test_updates_wait_for_reads_that_are_on_their_way[40]",
    ),
    Mutant(
        "pipeline/lowered/gpu/on_stream.py",
        "        self.event.wait()\n",
        "",
        "tests/cuda_host/test_plans.py::test_batches_are_those_of_the_cpu[sampled there-neighbor]",
    ),
    Mutant(
        "cuda/cached_rows.py",
        "ids[is_missing].cpu()",
        'ids[is_missing].to("cpu", non_blocking=True)',
        _WAITS + "test_missing_ids_are_waited_for",
    ),
    Mutant(
        "cuda/faults.py",
        "= whole.tolist()",
        '= whole.to("cpu", non_blocking=True).tolist()',
        _WAITS + "test_faults_are_seen",
    ),
    Mutant(
        "pipeline/models/captured_step.py",
        "            event.wait()\n",
        "",
        "tests/cuda_host/test_captured_step.py::test_results_are_waited_for",
    ),
    Mutant(
        "pipeline/distributed/local_comm.py",
        "        for event in meeting.events:\n            event.wait()\n",
        "",
        _WAITS + "test_ranks_wait_for_what_others_are_about_to_make",
    ),
    Mutant(
        "pipeline/distributed/local_comm.py",
        "            use_here(tensor for tensors in meeting.brought.values() for tensor in tensors)\n",
        "            pass\n",
        _WAITS + "test_ranks_wait_for_what_others_are_about_to_make",
    ),
    Mutant(
        "cuda/streams.py",
        "event = torch.cuda.current_stream(device).record_event()",
        "event = torch.cuda.default_stream(device).record_event()",
        _EVENTS,
    ),
    Mutant(
        "cuda/streams.py",
        "torch.cuda.current_stream(device).wait_event(event)",
        "torch.cuda.default_stream(device).wait_event(event)",
        _EVENTS,
    ),
    Mutant(
        "cuda/streams.py",
        "torch.cuda.current_stream(device).synchronize()",
        "torch.cuda.default_stream(device).synchronize()",
        _EVENTS,
    ),
    Mutant(
        "pipeline/data/types.py",
        "        use_here([copies[device]])\n",
        "",
        _WAITS + "test_tables_of_types_are_kept_for_the_streams_that_read_them",
    ),
    Mutant(
        "cuda/backend.py",
        "with torch.cuda.device(device):",
        "with torch.cuda.device(tensor.device):",
        _LAUNCH + "test_a_gpu_is_current_when_it_is_to_reach_a_peer",
    ),
    Mutant(
        "cuda/gpu.py",
        "        with torch.cuda.device(self.index):\n            self._free(0)\n",
        "        self._free(0)\n        with torch.cuda.device(self.index):\n",
        _LAUNCH + "test_the_driver_has_the_gpu_current_of_which_it_frees_nothing",
    ),
    Mutant(
        "pipeline/storage/tiers.py",
        "        if self._borrowed.moved():\n            self._pin()\n",
        "",
        _WAITS + "test_tiers_are_pinned_anew_where_torch_has_moved_them",
    ),
    Mutant(
        "ops/cache/line_cache.py",
        "index.look_up(lines)",
        "index.look_up(lines, keep_found=False)",
        _WAITS + "test_no_line_is_read_and_filled_at_once",
        equivalent="without reads to come, what is missing is worth no more than what the read has found",
    ),
    Mutant(
        "cuda/kernels/cache.cu",
        "keeps_found != 0 && last == now",
        "keeps_found != 0 && last > now",
        _WAITS + "test_slots_of_a_read_are_kept_where_others_are_wanted_more",
    ),
    Mutant(
        "cuda/rows.py",
        "        if trusted:  # else the host waits\n            keep(source, device)\n",
        "",
        _KEPT + "[rows]",
    ),
    Mutant(
        "cuda/rows.py",
        "            for one in tables.tensors:\n                keep(one, device)\n",
        "            pass\n",
        _KEPT + "[tables]",
    ),
    Mutant("cuda/cached_rows.py", "    keep(source, out.device)\n", "", _KEPT + "[rows of a cache]"),
    Mutant(
        "ops/gpu.py",
        "            keep(value, device)\n",
        "",
        _WAITS + "test_pinned_arrays_of_a_graph_are_kept_until_they_are_read",
    ),
    Mutant(
        "cuda/kept.py",
        "use = storage.data_ptr(), device.index,",
        "use = 0, 0,",
        _WAITS + "test_torch_is_told_of_each_stream_once",
    ),
)
