"""Faults where rows of a graph are fetched to a GPU, and in the cache that keeps some of them there."""

from __future__ import annotations

from mutants.mutant import Mutant

_CACHE = "tests/cuda_host/test_line_cache.py::"
_ROWS = "tests/ops/sampling/test_fetch_rows.py::"
_SPLIT = "tests/pipeline/passes/test_split_sample.py::"

GRAPH_FETCH = (
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "line_of(last, offset) - line_of(starts[i], offset) + 1",
        "(degrees[i] + kWarp - 1) / kWarp",
        _ROWS + "test_rows_that_begin_and_end_anywhere_in_a_line",
    ),
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "position < 0 || position >= num_edges",
        "position >= num_edges",
        _CACHE + "test_nothing_is_read_beyond_the_ends",
    ),
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "|| position >= num_edges ?",
        "?",
        _CACHE + "test_nothing_is_read_beyond_the_ends",
    ),
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "if (!is_wanted && fill < 0) return;",
        "if (!is_wanted) return;",
        _CACHE + "test_rows_are_those_of_the_graph_under_every_schedule",
    ),
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "edges[e] - first[i] + starts[i]",
        "edges[e] - first[i]",
        _SPLIT + "test_same_result",
    ),
    Mutant(
        "cuda/kernels/fetch_rows.cu",
        "const bool is_line = k < first[num_rows];",
        "const bool is_line = true;",
        _CACHE + "test_rows_and_counts_equal_the_reference",
    ),
    Mutant(
        "cuda/kernels/segments.cuh",
        "faults != nullptr && (source < 0",
        "(source < 0",
        _ROWS + "test_picks_equal_those_of_the_graph",
    ),
    Mutant("ops/sampling/fetch_rows.py", "starts - indptr[:-1]", "starts", _ROWS + "test_picks_of_hubs"),
    Mutant(
        "ops/cache/line_cache.py",
        "self._last_use.wait()",
        "pass",
        _CACHE + "test_streams_wait_for_each_other",
    ),
    Mutant(
        "ops/cache/line_cache.py",
        "self._index or self._empty(), None",
        "self._index or self._empty(), self._index",
        _CACHE + "test_a_fetch_that_fails_leaves_no_line_that_is_not_there",
    ),
    Mutant(
        "ops/cache/line_cache.py",
        "len(indices) // LINE_EDGES + 2",
        "len(indices) // LINE_EDGES",
        _CACHE + "test_what_has_room_is_read_once",
    ),
    Mutant(
        "ops/cache/line_cache.py",
        "if not same or len(indices) != len(self._indices):",
        "if not same:",
        _CACHE + "test_a_cache_is_for_one_array_on_one_device",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "return self.weight is None and self.trees is None",
        "return self.trees is None",
        "tests/behaviour/passes/test_split_sample.py::test_refuses_other_rules",
    ),
    Mutant(
        "pipeline/lowered/_hop.py",
        "return self.weight is None and self.trees is None",
        "return self.weight is None",
        "tests/behaviour/passes/test_split_sample.py::test_refuses_other_rules",
    ),
    Mutant(
        "pipeline/data/graph_machinery.py",
        "return any(there.is_cuda and index in (None, there.device.index) for there in known)",
        "return any(there.is_cuda for there in known)",
        _SPLIT + "test_what_has_been_copied_fits",
    ),
    Mutant(
        "pipeline/passes/graph_cache.py",
        "cache = others[0] if others else GraphCache(",
        "cache = GraphCache(",
        "tests/pipeline/passes/test_graph_cache.py::test_hops_share_a_cache",
    ),
    Mutant(
        "pipeline/plan/verify.py",
        '    FETCHED: "nothing',
        '    "never": "nothing',
        _SPLIT + "test_rows_and_their_hop_stand_together",
    ),
)
