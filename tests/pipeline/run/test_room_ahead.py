"""Batches run ahead of the training loop only as far as there is memory for them."""

from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace

import pytest
import torch

import headrace as hr
from headrace.ops import memory_limit
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.run import room_ahead
from headrace.pipeline.run.room_ahead import LARGE, PLENTY, SPARE, RoomAhead

ROWS, WIDTH, BATCH = 800, 16, 20
BYTES = BATCH * WIDTH * 4
DEPTH = 4
UNASKED = PLENTY // 8 + DEPTH


def made(num_bytes: int) -> SimpleNamespace:
    return SimpleNamespace(records=[SimpleNamespace(counts={"seeds": 3}), SimpleNamespace(counts={"bytes": num_bytes})])


@pytest.fixture
def room(monkeypatch):
    """What may yet be taken, and how often that was asked."""
    state = SimpleNamespace(free=1 << 40, asked=0)

    def memory_room(ranks: int) -> int:
        state.asked += 1
        return state.free

    monkeypatch.setattr(room_ahead, "memory_room", memory_room)
    monkeypatch.setattr(room_ahead, "trim_pool", lambda: 0)
    return state


def test_a_batch_needs_room_for_itself_and_those_that_are_being_made(room):
    ahead = RoomAhead()
    ahead.note(made(LARGE))
    for being_made in range(3):
        needed = (being_made + 1 + SPARE) * LARGE
        for room.free in (needed - 1, needed):
            assert ahead.is_there(being_made) == (room.free == needed)


def test_small_batches_and_plenty_of_room_ask_for_nothing(room):
    ahead = RoomAhead()
    ahead.note(made(LARGE - 1))
    assert ahead.is_there(0)
    assert room.asked == 0
    ahead.note(made(LARGE))
    room.free = PLENTY * LARGE
    assert all(ahead.is_there(0) for _ in range(PLENTY))
    assert 1 < room.asked < PLENTY // 4


def test_memory_kept_for_coming_batches_goes_back_first(room, monkeypatch):
    def trim_pool() -> int:
        room.free = (1 + SPARE) * LARGE
        return LARGE

    monkeypatch.setattr(room_ahead, "trim_pool", trim_pool)
    ahead = RoomAhead()
    ahead.note(made(LARGE))
    room.free = LARGE
    assert ahead.is_there(0)
    assert room.free == (1 + SPARE) * LARGE


class Ahead:
    """Knows the last batch that was made, and waits until it is a certain one, or for some time."""

    def __init__(self) -> None:
        self.last = (0, 0)  # epoch and index
        self._change = threading.Condition()

    def note(self, batch: hr.MiniBatch) -> hr.MiniBatch:
        with self._change:
            self.last = max(self.last, (batch.epoch, batch.index))
            self._change.notify_all()
        return batch

    def reaches(self, epoch: int, index: int, seconds: float) -> bool:
        with self._change:
            return self._change.wait_for(lambda: self.last >= (epoch, index), seconds)


@pytest.fixture
def loader(monkeypatch):
    """A loader that says what it makes, of batches that count as large."""
    monkeypatch.setattr(room_ahead, "LARGE", BYTES)
    ahead = Ahead()
    store = hr.FeatureStore(node={"x": torch.arange(ROWS * WIDTH, dtype=torch.float32).view(ROWS, WIDTH)})
    graph = hr.Graph.from_coo([0], [1], num_nodes=ROWS)
    plan = hr.ItemSampler(ROWS, batch_size=BATCH).sample_neighbor(graph, [1]).fetch_feature(store, node=["x"])
    plan = plan.transform(partial(Ahead.note, ahead)).prefetch(workers=2, depth=DEPTH)
    with plan.loader(machine=Machine(cores=2)) as made_of_it:
        yield SimpleNamespace(loader=made_of_it, ahead=ahead, plan=plan)


def runs_ahead(loader: SimpleNamespace, by: int) -> bool:
    """Whether workers come so far beyond what was taken, behind the batches that need not ask for room yet."""
    for batch in loader.loader:
        if batch.index > UNASKED and loader.ahead.reaches(batch.epoch, batch.index + by, 0.05):
            return True
        if batch.index == 2 * UNASKED:
            break
    return False


def test_batches_fill_the_depth_where_there_is_room_and_one_waits_where_there_is_none(loader, room):
    assert runs_ahead(loader, DEPTH)
    room.free = 1
    assert not runs_ahead(loader, 2)


def test_the_same_batches_come_without_room(loader, room):
    expected = [batch.digest() for batch in loader.loader]
    room.free = 1
    with loader.plan.loader(machine=Machine(cores=2)) as another:
        assert [batch.digest() for batch in another] == expected


def test_workers_that_wait_for_room_end_with_the_loader(loader, room):
    room.free = 1
    iteration = iter(loader.loader)
    for _ in range(5):
        next(iteration)
    loader.loader.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-prefetch")]


def test_others_in_a_group_of_processes_take_the_room(loader, monkeypatch, tmp_path):
    """Groups of the second version: what other processes take while a loop runs is not for batches to come."""
    (tmp_path / "groups").write_text("0::/job\n")
    job = tmp_path / "root" / "job"
    job.mkdir(parents=True)
    (job / "memory.max").write_text("max\n")
    (job / "memory.high").write_text(f"{100 * BYTES}\n")
    (job / "memory.current").write_text("0\n")
    groups = partial(memory_limit._control_groups, root=tmp_path / "root", groups=tmp_path / "groups")
    monkeypatch.setattr(memory_limit, "_control_groups", groups)
    monkeypatch.setattr(room_ahead, "trim_pool", lambda: 0)
    monkeypatch.setattr(room_ahead, "ranks_here", lambda: 1)
    assert runs_ahead(loader, DEPTH)
    (job / "memory.current").write_text(f"{99 * BYTES}\n")
    assert not runs_ahead(loader, 2)
