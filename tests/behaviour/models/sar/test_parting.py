"""Ranks that part in full-batch training: all hear who did what, and none waits."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from ranks import run_processes, run_ranks
from sharded import owners
from sharded_parting import ERRORS, WAYS, train

import headrace as hr

from parting import all_of
from plans import graph

pytest.importorskip("torch_geometric")

SCRIPT = """
import json, sys, time, torch
import headrace as hr
from ranks import comm_of_job
from sharded_parting import train

rank, world_size, meeting, ways = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
comm, told = comm_of_job(), {}
for way in ways:
    comm.begin()
    began = time.monotonic()
    try:
        train(comm, way)
    except (hr.PeerError, ValueError) as error:
        told[way] = str(error)
    assert time.monotonic() - began < 60
print(json.dumps(told), flush=True)
"""

ENDING = """
import sys, torch
import headrace as hr
from ranks import comm_of_job
from sharded_parting import train

rank, world_size, meeting, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
try:
    train(comm_of_job(), way, alone=True)
except hr.PeerError as error:
    print(error, flush=True)
"""


def assert_named(error: str, way: str) -> None:
    """Both ranks are named, with what each of them does."""
    for words in ("rank 0", "rank 1", *WAYS[way]):
        assert words in error


@pytest.mark.parametrize("way", WAYS)
def test_ranks_that_part_are_named(way):
    for error in all_of(2, lambda comm: train(comm, way)):
        assert_named(error, way)


@pytest.mark.parametrize("where", ERRORS)
def test_an_error_reaches_the_other_ranks_with_its_traceback(where):
    told: dict[int, str] = {}

    def work(comm: hr.Comm) -> None:
        try:
            train(comm, where)
        except (hr.PeerError, ValueError) as error:
            told[comm.rank] = str(error)

    began = time.monotonic()
    run_ranks(3, work)
    assert time.monotonic() - began < 8
    for rank in (0, 2):
        assert told[rank].startswith("rank 1 failed:\nTraceback")
        assert "of rank one is out of order" in told[rank]
    assert told[1].endswith("of rank one is out of order")


def test_ranks_that_make_a_graph_of_something_else_tell_the_others():
    def work(comm: hr.Comm) -> None:
        parts = hr.Partition.range(graph().num_nodes, 2 + comm.rank)
        with pytest.raises(hr.InputError) if comm.rank else pytest.raises(hr.PeerError, match="2 ranks, got"):
            hr.sar.ShardedGraph(graph(), parts, comm)

    run_ranks(2, work)


@pytest.mark.parametrize("options", [{"mode": "all"}, {"prefetch": 2}], ids=["mode", "prefetch"])
def test_a_rank_with_options_that_are_none_tells_the_others(options):
    def work(comm: hr.Comm) -> None:
        wrong = options if comm.rank == 1 else {}
        with pytest.raises(hr.InputError) if wrong else pytest.raises(hr.PeerError, match="rank 1 failed:\nTraceback"):
            hr.sar.ShardedGraph(graph(), owners("hash", 3), comm, **wrong)

    assert all_of(3, work) == [""] * 3


@pytest.mark.thorough
def test_processes_that_part_are_named(tmp_path: Path):
    ways = [*WAYS, *ERRORS]
    printed = run_processes(SCRIPT, 2, tmp_path / "meeting", *ways, failing=True)
    for rank, told in enumerate(map(json.loads, printed)):
        for way in WAYS:
            assert_named(told[way], way)
        for where in ERRORS:
            assert told[where].endswith("of rank one is out of order" + "\n" * (rank == 0))
            assert rank == 1 or told[where].startswith("rank 1 failed:\nTraceback")


@pytest.mark.combinations(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "word"),
    [
        ("loss", "rank 1 ended with ValueError: the loss of rank one"),
        ("no step", "rank 1 ended; rank 0"),
    ],
)
def test_a_process_that_ends_is_named(way, word, tmp_path: Path):
    """Also outside of ``with``, and before the time is over that an exchange has."""
    began = time.monotonic()
    heard, own = run_processes(ENDING, 2, tmp_path / "meeting", way, failing=True)
    assert time.monotonic() - began < 100  # an exchange has half an hour; processes start slowly
    assert word in heard
    assert not own
