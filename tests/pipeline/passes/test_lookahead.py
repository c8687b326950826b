"""lookahead: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

import headrace as hr
from headrace.pipeline.data.place import CPU, DISK
from headrace.pipeline.passes import rewrite
from headrace.pipeline.passes.lookahead import BYTES_OF_UNKNOWN, SHARE
from headrace.pipeline.plan.machine import Machine
from headrace.pipeline.plan.rewriting import PassRecord, Rewriting
from headrace.pipeline.run.lower import lower
from headrace.pipeline.run.window_node import MOST_ENTERING
from headrace.pipeline.storage import reads_ahead

from plans import PLANS, SEED, graph, items, store, store_on_disk

ONE_CORE, TWO_CORES = Machine(cores=1), Machine(cores=2)


def final(plan, machine=ONE_CORE, **switches):
    return rewrite(plan, machine, switches).final.stages


def on_disk(**names: object) -> hr.Plan:
    return items().sample_neighbor(graph(), [4, 3]).fetch_feature(store_on_disk(), **(names or {"node": ["x"]}))


class Expecting:
    """A source that wants to know its next reads."""

    foresight = 200  # rows: three batches or so

    def __init__(self) -> None:
        self._rows = store().node["x"]
        self.expected: list[list[int]] = []
        self.asked: list[list[int]] = []
        self.num_rows, self.row_bytes = self._rows.num_rows, self._rows.row_bytes
        self.dtype, self.shape = self._rows.dtype, self._rows.shape

    def read(self, ids, *, num_threads=1, to=CPU):
        self.asked.append(ids.tolist())
        return self._rows.read(ids, num_threads=num_threads, to=to)

    def content_digest(self):
        return self._rows.content_digest()

    def expect(self, ids):
        self.expected.append(ids.tolist())

    def expect_nothing(self):
        self.expected.clear()


def test_fires_for_rows_on_disk():
    stages = final(on_disk(node=["x"], edge=["e"], labels="y"))
    assert [stage.name for stage in stages] == ["item_sampler", "sample_fused", "fetch_ahead"]
    ahead = stages[-1]
    assert (ahead.wants.node, ahead.wants.edge, ahead.wants.labels) == (("x",), ("e",), "y")


def test_fires_for_a_source_that_wants_to_know():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node={"x": Expecting()}), node=["x"])
    assert final(plan)[-1].name == "fetch_ahead"


def test_refuses_rows_in_memory():
    assert final(PLANS["neighbor"]())[-1].name == "fetch_feature"


def test_is_switched_off():
    assert final(on_disk(), lookahead=False)[-1].name == "fetch_feature"


def test_samples_in_a_thread_of_its_own():
    assert [stage.name for stage in final(on_disk(), TWO_CORES)][-3:] == ["prefetch", "fetch_ahead", "prefetch"]
    wanted = final(on_disk().prefetch(workers=3, depth=5), TWO_CORES)
    assert [(stage.workers, stage.depth) for stage in wanted if stage.name == "prefetch"] == [(3, 5), (3, 5)]
    for plan, machine in ((on_disk().prefetch(workers=0), TWO_CORES), (on_disk(), ONE_CORE)):
        assert [stage.name for stage in final(plan, machine)][-2].startswith(("fetch_ahead", "sample_fused"))


def test_same_result():
    plan = on_disk(node=["x"], edge=["e"], labels="y")
    whole = items().sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    for machine in (ONE_CORE, TWO_CORES):
        found = [batch.digest() for batch in plan.loader(machine=machine)]
        assert found == [batch.digest() for batch in whole.loader(lookahead=False, machine=machine)]


def test_resumes_behind_the_batch_that_left_the_window():
    loader = on_disk().loader(machine=ONE_CORE)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    assert loader._node.state_dict()["source"]["batch"] == 1  # not those of the window, which were drawn
    expected = [batch.digest() for batch in batches]
    loader.load_state_dict(state)
    assert [batch.digest() for batch in loader] == expected


def small_batches(x: object) -> hr.Plan:
    plan = items(batch_size=3).sample_neighbor(graph(), [4])
    return plan.fetch_feature(hr.FeatureStore(node={"x": x}), node=["x"])


def windows(batches: list[hr.MiniBatch]) -> list[list[hr.MiniBatch]]:
    """Return the batches of each window where memory has room: for each that leaves, three may enter."""
    starts = [0]
    while starts[-1] < len(batches):
        starts.append(MOST_ENTERING * (starts[-1] + 1))
    return [batches[start:end] for start, end in pairwise(starts)]


def num_new(batches: list[hr.MiniBatch]) -> list[int]:
    """Return how many rows each window reads: those that the window before has are copied."""
    rows = [set(), *({*torch.cat([batch.n_id for batch in window]).tolist()} for window in windows(batches))]
    return [len(after - before) for before, after in pairwise(rows)]


def test_reads_a_row_once_for_all_batches_of_a_window():
    plan = small_batches(store_on_disk().node["x"])
    with plan.loader(machine=ONE_CORE) as loader:
        batches = list(loader)
        stats = loader.stats()["fetch_feature"]
    assert [len(window) for window in windows(batches)] == [3, 9, len(batches) - 12]
    assert stats["rows"] == sum(len(batch.n_id) for batch in batches)
    assert stats["distinct_rows"] == sum(num_new(batches)) < stats["rows"]
    row_bytes = store().node["x"].row_bytes
    assert stats["bytes_from_disk"] == stats["distinct_rows"] * row_bytes
    assert stats["bytes"] == stats["rows"] * row_bytes


class Noting(Expecting):
    """A source on disk that notes its reads."""

    place, foresight = DISK, 0


def test_the_next_window_is_read_while_batches_of_this_one_leave():
    source = Noting()
    plan = small_batches(source)
    batches, num_read = [], []
    for batch in plan.loader(machine=ONE_CORE):
        batches.append(batch)
        num_read.append(sum(map(len, source.asked)))
    first, second, third = num_new(batches)
    assert num_read[:3] == [first] * 3  # the second window has not ended: its batches enter
    assert num_read[3] == first + second
    assert num_read[-1] == first + second + third
    # Each piece is in the order of the file.
    assert all(ids == sorted(set(ids)) for ids in source.asked)


def rows_read(source: Noting, room: int) -> int:
    """Return how many rows the windows of an epoch read, whose batches are as from memory."""
    plan = small_batches(source)
    stages = final(plan)
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


def test_an_error_of_reading_ahead_is_raised_at_the_turn_of_its_window():
    class Damaged(Noting):
        def read(self, ids, *, num_threads=1, to=CPU):
            if self.asked:
                raise hr.InputError("row 7 cannot be read")
            return super().read(ids, num_threads=num_threads, to=to)

    batches = iter(small_batches(Damaged()).loader(machine=ONE_CORE))
    assert [next(batches).index for _ in range(MOST_ENTERING)] == [0, 1, 2]
    with pytest.raises(hr.InputError, match="row 7 cannot be read"):
        next(batches)


def test_expects_every_read_a_window_ahead():
    source = Expecting()
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])
    loader = plan.loader(machine=ONE_CORE)
    iterator = iter(loader)
    first = next(iterator)
    # So soon it leaves, however many the source wants to know of: no epoch begins with a long wait.
    assert len(source.expected) == MOST_ENTERING
    assert source.expected[0] == source.asked[0] == first.n_id.tolist()
    found = [first]
    for batch in iterator:
        found.append(batch)
        *but_last, _ = source.expected[len(found) - 1 :]
        assert sum(map(len, but_last)) < Expecting.foresight
        if 4 < len(found) < len(loader) - 4:
            assert sum(map(len, source.expected[len(found) - 1 :])) >= Expecting.foresight
        said = list(source.expected)
    assert said == source.asked == [batch.n_id.tolist() for batch in found]
    again = iter(loader)
    next(again)
    assert len(source.expected) == MOST_ENTERING  # what the old iteration expected is forgotten


def test_what_a_window_holds_goes_with_the_iteration():
    source = Expecting()
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])
    loader = plan.loader(machine=ONE_CORE)
    for _ in loader:
        break
    assert not source.expected


def test_an_error_of_expecting_names_stage_and_batch():
    class Refuses(Expecting):
        def expect(self, ids):
            raise hr.InputError("no such row")

    plan = items().sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node={"x": Refuses()}), node=["x"])
    with pytest.raises(hr.InputError, match="no such row") as caught:
        next(iter(plan.loader(machine=ONE_CORE)))
    assert "in stage fetch_feature" in str(caught.value.__notes__)
    assert "batch 0" in str(caught.value.__notes__)


def test_batches_in_view_take_a_share_of_the_memory():
    for memory, room in ((170 << 20, (170 << 20) // SHARE), (0, BYTES_OF_UNKNOWN)):
        machine = Machine(cores=1, memory=memory)
        assert final(on_disk(), machine, tiered_cache=False)[-1].bytes_in_view == room


def test_an_error_is_raised_at_the_turn_of_its_batch():
    def fails_at_two(batch: hr.MiniBatch) -> hr.MiniBatch:
        if batch.index == 2:
            raise RuntimeError("no third batch")
        return batch

    plan = items().transform(fails_at_two).fetch_feature(store_on_disk(), node=["x"])
    batches = iter(plan.loader(machine=ONE_CORE))
    assert [next(batches).index, next(batches).index] == [0, 1]
    with pytest.raises(RuntimeError, match="no third batch"):
        next(batches)


def test_labels_of_a_batch_that_has_some_are_refused():
    def labelled(batch: hr.MiniBatch) -> hr.MiniBatch:
        return batch.replace(y=batch.seeds)

    plan = items().transform(labelled).fetch_feature(store_on_disk(), labels="y")
    with pytest.raises(hr.PlanError, match="would replace labels"):
        next(iter(plan.loader(machine=ONE_CORE)))


def test_batches_in_view_stay_within_the_memory():
    """Where they would not, the loader goes on with those that have room, or with one."""
    source = Expecting()
    plan = items(batch_size=10).sample_neighbor(graph(), [4])
    fetched = plan.fetch_feature(hr.FeatureStore(node={"x": source}), node=["x"])
    whole = [batch.digest() for batch in plan.fetch_feature(store(), node=["x"]).loader()]
    stages = final(fetched)
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
