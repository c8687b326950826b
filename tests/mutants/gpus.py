"""Copies, streams, devices and memory of GPUs: what is of another one, is cut short, or has not come yet."""

from __future__ import annotations

from mutants.mutant import Mutant

_HOST = "tests/cuda_host/"
_WAITS, _STREAMS = _HOST + "test_waits.py::", _HOST + "test_streams.py::"
_EVENTS = _WAITS + "test_events_and_waits_are_of_the_current_stream"
_TOLD = _WAITS + "test_torch_is_told_of_each_stream_once"
_LINES = _HOST + "test_line_cache.py::"

GPUS = (
    Mutant(
        "ops/gpu.py",
        "        synchronize(device)\n        return there\n",
        "        return there\n",
        _WAITS + "test_copies_of_a_graph_are_there_for_all_streams",
    ),
    Mutant(
        "cuda/streams.py",
        "Event(lambda: torch.cuda.current_stream(device).wait_event(event), event.query)",
        "Event(event.wait, event.query)",
        _EVENTS,
    ),
    Mutant(
        "cuda/streams.py",
        "stream.wait_stream(torch.cuda.current_stream(device))",
        "stream.wait_stream(torch.cuda.default_stream(device))",
        _STREAMS + "test_side_streams_wait_for_the_current_one_where_they_are_told[True]",
    ),
    Mutant(
        "cuda/streams.py",
        "torch.cuda.current_stream(tensor.device)",
        "torch.cuda.current_stream()",
        _STREAMS + "test_memory_on_a_gpu_is_recorded_on_the_current_stream",
    ),
    Mutant(
        "cuda/kept.py",
        "record_stream(torch.cuda.current_stream(device))",
        "record_stream(torch.cuda.current_stream(tensor.device))",
        _TOLD,
    ),
    Mutant("cuda/kept.py", "torch.cuda.current_stream(device).cuda_stream", "0", _TOLD),
    Mutant(
        "cuda/cache.py",
        "use_here((self.ids, self._used, self._next,",
        "use_here((self.ids, self._used,",
        _STREAMS + "test_what_a_side_stream_keeps_is_recorded_where_others_use_it[rows]",
    ),
    Mutant(
        "pipeline/lowered/gpu/on_stream.py",
        "else converted_tensors(batch))",
        "else ())",
        _STREAMS + "test_converted_batches_are_recorded_where_they_arrive",
    ),
    Mutant(
        "cuda/memory.py",
        'torch.zeros(1, device=torch.device("cuda", other)).to(torch.device("cuda", device))',
        'torch.zeros(1, device=torch.device("cuda", device)).to(torch.device("cuda", other))',
        _HOST + "test_memory.py::test_torch_copies_from_the_peer_that_is_read",
    ),
    Mutant(
        "cuda/fetch_rows.py",
        "room // LINE_EDGES + 2 * num_dst",
        "room // LINE_EDGES + num_dst",
        _LINES + "test_rows_are_those_of_the_graph_under_every_schedule",
    ),
    Mutant(
        "cuda/pick_weighted.py",
        "torch.empty(num_edges // EDGES_PER_SUM + 1,",
        "torch.empty(num_edges // EDGES_PER_SUM,",
        _HOST + "test_weighted.py::test_sums_have_room_for_the_last_one",
    ),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "        self._last_use = record(self._device)\n        return Rows(rows, {",
        "        return Rows(rows, {",
        _WAITS + "test_slots_are_not_filled_before_they_are_read",
    ),
    Mutant(
        "pipeline/storage/rows_on_gpu.py",
        "        self._index.clear()\n        self._last_use = record(self._device)\n",
        "        self._index.clear()\n",
        _WAITS + "test_slots_are_emptied_before_others_look_there",
    ),
    Mutant(
        "ops/cache/line_cache.py",
        "                self._index = index\n            finally:\n",
        "            finally:\n                self._index = index\n",
        _LINES + "test_a_fetch_that_fails_leaves_no_line_that_is_not_there",
    ),
    Mutant(
        "pipeline/storage/gpu_cached_feature.py",
        "                self._source.prepare(to)  # pins it anew where torch has moved it\n",
        "                pass\n",
        _WAITS + "test_caches_read_rows_where_torch_has_moved_them",
    ),
    Mutant(
        "pipeline/storage/tiers.py",
        "        if self._borrowed.moved():\n            self._pin()\n",
        "        if self._borrowed.moved():\n            tables = self._tables\n            self._pin()\n"
        "            self._tables = tables\n",
        _WAITS + "test_tiers_are_pinned_anew_where_torch_has_moved_them",
    ),
    Mutant(
        "cuda/compile.py",
        'f"sm_{capability}" if max(known) == int(capability) else f"compute_{max(known)}"',
        'f"sm_{max(known)}"',
        _HOST + "test_compile.py::test_a_gpu_newer_than_the_compiler_takes_ptx",
    ),
)
