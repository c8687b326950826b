"""lookahead: fires, refuses, is switched off, gives the same result."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from expecting_source import Expecting
from explained import names, stages

import headrace as hr

from plans import PLANS, graph, items, store, store_on_disk

CPU, DISK = hr.Place("cpu"), hr.Place("disk")
#: Batches that may enter a window for each that leaves.
MOST_ENTERING = 3

ONE_CORE, TWO_CORES = hr.Machine(cores=1), hr.Machine(cores=2)


def final(plan, machine=ONE_CORE, **switches):
    return stages(plan.explain(machine=machine, **switches))


def on_disk(**names: object) -> hr.Plan:
    return items().sample_neighbor(graph(), [4, 3]).fetch_feature(store_on_disk(), **(names or {"node": ["x"]}))


def test_fires_for_rows_on_disk():
    plan = on_disk(node=["x"], edge=["e"], labels="y")
    assert names(plan, ONE_CORE) == ["item_sampler", "sample_fused", "fetch_ahead"]
    assert final(plan)[-1].startswith("fetch_ahead(store#1, node=['x'], edge=['e'], labels='y'")


def test_fires_for_a_source_that_wants_to_know():
    plan = items().sample_neighbor(graph(), [4]).fetch_feature(hr.FeatureStore(node={"x": Expecting()}), node=["x"])
    assert names(plan, ONE_CORE)[-1] == "fetch_ahead"


def test_refuses_rows_in_memory():
    assert names(PLANS["neighbor"](), ONE_CORE)[-1] == "fetch_feature"


def test_is_switched_off():
    assert names(on_disk(), ONE_CORE, lookahead=False)[-1] == "fetch_feature"


def test_samples_in_a_thread_of_its_own():
    assert names(on_disk(), TWO_CORES)[-3:] == ["prefetch", "fetch_ahead", "prefetch"]
    wanted = final(on_disk().prefetch(workers=3, depth=5), TWO_CORES)
    assert [stage for stage in wanted if stage.startswith("prefetch")] == ["prefetch(3, 5)"] * 2
    for plan, machine in ((on_disk().prefetch(workers=0), TWO_CORES), (on_disk(), ONE_CORE)):
        assert names(plan, machine)[-2] in ("fetch_ahead", "sample_fused")


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
    assert state["source"]["batch"] == 1  # not those of the window, which were drawn
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
    for memory, room in ((170 << 20, (170 << 20) // 8), (0, 256 << 20)):
        machine = hr.Machine(cores=1, memory=memory)
        assert f"bytes_in_view={room}" in final(on_disk(), machine, tiered_cache=False)[-1]


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
