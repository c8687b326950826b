"""Ranks that part in full-batch training: all hear who did what, and none waits."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from ranks import run_processes, run_ranks
from sharded import owners
from sharded_parting import ERRORS, WAYS, train

import headrace as hr
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.collective_order import REMEMBERED, CollectiveOrder

from parting import all_of
from plans import graph

pytest.importorskip("torch_geometric")

SCRIPT = """
import json, sys, time, torch
import headrace as hr
from headrace.pipeline.distributed.comm import world_comm
from sharded_parting import train

rank, world_size, meeting, ways = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
comm, told = world_comm(), {}
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
from headrace.pipeline.distributed.comm import world_comm
from sharded_parting import train

rank, world_size, meeting, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
try:
    train(world_comm(), way, alone=True)
except hr.PeerError as error:
    print(error, flush=True)
"""

STEADY = """
import json, sys, torch
import headrace as hr
from headrace.pipeline.distributed.comm import world_comm
from sharded_parting import train

rank, world_size, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world_size)
comm, counts = world_comm(), []
for steps in (3, 9):
    comm.begin()
    before = comm._num_meetings, comm.num_collectives
    train(comm, steps=steps)
    counts.append((comm._num_meetings - before[0], comm.num_collectives - before[1]))
print(json.dumps(counts), flush=True)
torch.distributed.destroy_process_group()
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

    def work(comm: Comm) -> None:
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
    def work(comm: Comm) -> None:
        parts = hr.Partition.range(graph().num_nodes, 2 + comm.rank)
        with pytest.raises(hr.GraphError) if comm.rank else pytest.raises(hr.PeerError, match="2 ranks, got"):
            hr.sar.ShardedGraph(graph(), parts, comm)

    run_ranks(2, work)


@pytest.mark.parametrize("options", [{"mode": "all"}, {"prefetch": 2}], ids=["mode", "prefetch"])
def test_a_rank_with_options_that_are_none_tells_the_others(options):
    def work(comm: Comm) -> None:
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


@pytest.mark.thorough
@pytest.mark.slow
def test_steps_that_repeat_need_no_agreement(tmp_path: Path):
    for text in run_processes(STEADY, 2, tmp_path / "meeting"):
        (meetings, few), (more_meetings, many) = json.loads(text)
        assert more_meetings == meetings > 0
        assert many > 2 * few


def test_what_repeats_itself_is_expected():
    order = CollectiveOrder()
    step = ["rows", "rows", "gradients", "gradients", "sum"]
    seen = [[order.follows(None, kind) for kind in step] for _ in range(5)]
    assert seen[0] == [False] * 5
    assert not all(seen[1])
    assert seen[2:] == [[True] * 5] * 3
    # What comes in between, now and then, is new once; later its beginning alone is.
    between = ["rows", "rows", "total", *step]
    assert [order.follows(None, kind) for kind in between][:4] == [True, True, False, False]
    for _ in range(3):
        seen += [[order.follows(None, kind) for kind in step] for _ in range(3)]
        again = [order.follows(None, kind) for kind in between]
        assert again.count(False) <= 1
    assert seen[-6:] == [[True] * 5] * 6


def test_whatever_repeats_itself_is_expected_in_the_end():
    generator = torch.Generator().manual_seed(0)
    for length in range(1, 12):
        for _ in range(10):
            cycle = torch.randint(2, (length,), generator=generator).tolist()
            order = CollectiveOrder()
            for _ in range(4):
                expected = [order.follows(None, str(kind)) for kind in cycle]
            assert all(expected)


def test_little_is_remembered():
    order = CollectiveOrder()
    for number in range(5 * REMEMBERED):
        expected = order.follows(None, str(number % 7))
        assert expected or number < 14
    assert len(order._outside._past) <= 2 * REMEMBERED


def test_between_batches_and_other_exchanges_nothing_is_expected():
    """One rank may come to the one, another rank to the other."""
    order = CollectiveOrder()
    for batch in range(3):
        seen = [order.follows((0, batch), "rows"), *(order.follows(None, "rows") for _ in range(3))]
    assert seen == [False, False, True, True]
