"""Windows of batches with little memory, read by nodes that were made by hand."""

from __future__ import annotations

from dataclasses import replace

from expecting_source import Expecting

import headrace as hr
from headrace.pipeline.data.place import DISK
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rewriting import PassRecord, Rewriting
from headrace.pipeline.run.lower import lower
from headrace.pipeline.storage import reads_ahead

from plans import SEED, graph, items, store

ONE_CORE = Machine(cores=1)


class Noting(Expecting):
    """A source on disk that notes its reads."""

    place, foresight = DISK, 0


def small_batches(x: object) -> hr.Plan:
    plan = items(batch_size=3).sample_neighbor(graph(), [4])
    return plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])


def rows_read(source: Noting, room: int) -> int:
    """Return how many rows the windows of an epoch read, whose batches are as from memory."""
    plan = small_batches(source)
    stages = rewrite(plan, ONE_CORE).final.stages
    narrow = hr.Plan([*stages[:-1], replace(stages[-1], bytes_in_view=room)])
    node, *_ = lower(
        Rewriting(narrow, ONE_CORE, (PassRecord("", "", True, (), narrow),)), hr.ext.RunSettings(seed=SEED)
    )
    node.reset({"epoch": 0, "source": None})
    source.asked.clear()
    assert [work.batch.digest() for work in node] == [
        batch.digest() for batch in small_batches(store().node["x"]).loader()
    ]
    return sum(map(len, source.asked))


def test_a_window_is_read_piece_by_piece_while_another_one_leaves():
    source = Noting()
    rows_read(source, 8_000)
    first, second, *pieces = map(len, source.asked)  # the first two have no other one before them with batches left
    assert max(pieces) < min(first, second)


def test_windows_end_where_half_of_the_memory_is_taken():
    source = Noting()
    one, some, all_at_once = (rows_read(source, room) for room in (1, 8_000, 1 << 30))
    assert one > some > all_at_once


def test_rows_of_the_window_before_are_copied(monkeypatch):
    source = Noting()
    for room in (1, 8_000):
        with monkeypatch.context() as without:
            copied = rows_read(source, room)
            without.setattr(reads_ahead._Window, "carry", lambda *_: None)
            assert copied < rows_read(source, room)


def test_batches_in_view_stay_within_the_memory():
    """Where they would not, the loader goes on with those that have room, or with one."""
    source = Expecting()
    plan = items(batch_size=10).sample_neighbor(graph(), [4])
    fetched = plan.fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])
    whole = [batch.digest() for batch in plan.fetch_feature(store(), node=["x"]).loader()]
    stages = rewrite(fetched, ONE_CORE).final.stages
    for room, seen in ((1, 1), (3_000, 2), (1 << 20, 6)):
        narrow = hr.Plan([*stages[:-1], replace(stages[-1], bytes_in_view=room)])
        node, *_ = lower(
            Rewriting(narrow, ONE_CORE, (PassRecord("", "", True, (), narrow),)), hr.ext.RunSettings(seed=SEED)
        )
        node.reset({"epoch": 0, "source": None})
        source.expected.clear()
        found, in_view = [], []
        for work in node:
            found.append(work.batch.digest())
            in_view.append(len(source.expected) - len(found) + 1)
        assert max(in_view) == seen
        assert found == whole


def test_rows_that_could_not_be_copied_from_the_window_before_are_read(monkeypatch):
    """Where that fails ahead of their turn, they come at their turn."""
    gather, read_ahead, failures = reads_ahead.gather_rows, reads_ahead._Window.read_ahead, [MemoryError("no room")]

    def without_room(*arguments, **named):
        if "out" in named:
            raise failures.pop()
        return gather(*arguments, **named)

    def read_ahead_without_room(*arguments):
        if failures:
            monkeypatch.setattr(reads_ahead, "gather_rows", without_room)
        read_ahead(*arguments)
        monkeypatch.setattr(reads_ahead, "gather_rows", gather)

    monkeypatch.setattr(reads_ahead._Window, "read_ahead", read_ahead_without_room)
    assert rows_read(Noting(), 8_000) > 0
    assert not failures
