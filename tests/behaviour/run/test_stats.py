"""What a loader shows of itself: counters, a timeline, progress bars."""

from __future__ import annotations

import json
import pickle
import re
import sys
import time
from types import ModuleType

import pytest

import headrace as hr

from plans import PLANS, items


def test_stats_count_what_was_handed_out():
    loader = PLANS["neighbor"]().loader()
    nodes = edges = 0
    for batch in loader:
        nodes += len(batch.n_id)
        edges += sum(batch.num_sampled_edges)
        if batch.index == 2:
            break
    stats = loader.stats()
    assert stats["item_sampler"]["seeds"] == 51
    assert stats["sample_neighbor"]["edges"] == edges
    assert stats["fetch_feature"]["rows"] == nodes + 51
    assert stats["fetch_feature"]["bytes"] == nodes * 8 * 4 + 51 * 8
    assert stats["fetch_feature"]["batches"] == 3
    assert "sample_neighbor" in str(stats)
    assert stats.get("sample_neighbors") is None
    message = r"stats\(\): expected one of .*, got 'sample_neighbors'; did you mean 'sample_neighbor'\?"
    with pytest.raises(KeyError, match=message):
        stats["sample_neighbors"]
    message = r"stats\(\)\['sample_neighbor'\]: expected one of 'batches', .*, got 'edge'; did you mean 'edges'\?"
    with pytest.raises(KeyError, match=message):
        stats["sample_neighbor"]["edge"]


def test_stats_before_the_first_batch_say_so():
    with PLANS["neighbor"]().loader() as loader:
        with pytest.raises(KeyError, match=r"got 'sample_neighbor' .*; no stage has run, take a batch") as raised:
            loader.stats()["sample_neighbor"]
        assert loader.stats().get("sample_neighbor") is None
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # noqa: S301 - our own bytes


@pytest.mark.parametrize("name", ["neighbor", "neighbor_new", "labor_star", "pinsage", "saint_node"])
def test_stats_are_the_same_whatever_passes_run(name):
    """But for seconds: they are those of the stages that the user wrote, once for each batch."""
    plan = PLANS[name]()

    def counted(**switches):
        loader = plan.loader(**switches)
        num_batches = len(list(loader))
        stats = loader.stats()
        assert list(stats) == [stage for stage in plan.names if stage not in ("prefetch", "copy_to")]
        assert all(totals["batches"] == num_batches for totals in stats.values())
        return {
            stage: {name: count for name, count in totals.items() if name != "seconds"}
            for stage, totals in stats.items()
        }

    assert counted() == counted(fuse_sampling=False, prefetch=False)


def test_stats_of_the_stages_that_run_are_kept_beside():
    loader = PLANS["neighbor"]().loader(fuse_sampling=False)
    list(loader)
    stats = loader.stats()
    hops = ["sample_hop", "compact", "sample_hop#2", "compact#2"]
    assert list(stats.lowered) == ["item_sampler", *hops, "fetch_feature"]
    assert sum(stats.lowered[hop]["seconds"] for hop in hops) == pytest.approx(stats["sample_neighbor"]["seconds"])


def test_one_object_twice_in_a_plan_counts_as_two_stages():
    twice = items().transform(lambda batch: batch).stages[-1]
    loader = items().then(twice).then(twice).loader()
    num_batches = len(list(loader))
    stats = loader.stats()
    assert [stats[name]["batches"] for name in ("transform", "transform#2")] == [num_batches] * 2


def test_stats_count_the_rows_of_edges():
    loader = PLANS["full"]().loader()
    batches = list(loader)
    nodes = sum(len(batch.n_id) for batch in batches)
    edges = sum(len(rows) for batch in batches for rows in batch.edge["e"])
    assert edges == sum(sum(batch.num_sampled_edges) for batch in batches) > 0
    counted = loader.stats()["fetch_feature"]
    assert counted["rows"] == nodes + edges
    assert counted["bytes"] == nodes * 8 * 4 + edges * 3 * 4


def test_stats_count_each_hop_once():
    """A stage counts what it adds to a batch, not what was there."""
    loader = PLANS["neighbor"]().loader(fuse_sampling=False)
    batches = list(loader)
    stats = loader.stats()
    for hop, name in enumerate(["compact", "compact#2"]):
        assert stats.lowered[name]["edges"] == sum(batch.num_sampled_edges[hop] for batch in batches)
        assert stats.lowered[name]["nodes"] == sum(batch.num_sampled_nodes[hop + 1] for batch in batches)
    assert stats.total("edges") == sum(sum(batch.num_sampled_edges) for batch in batches)


def test_stats_are_those_of_the_moment():
    loader = PLANS["neighbor"]().loader()
    batches = iter(loader)
    next(batches)
    first = loader.stats()
    shown = str(first)
    next(batches)
    assert first["item_sampler"]["batches"] == 1
    assert str(first) == shown
    # Nor does what a user does to them change what the loader counts.
    second = loader.stats()
    second.stages["item_sampler"]["batches"] = 99
    second.stages.clear()
    second.lowered["item_sampler"]["batches"] = 99
    assert loader.stats()["item_sampler"]["batches"] == loader.stats().lowered["item_sampler"]["batches"] == 2


def test_stats_begin_anew_on_request():
    loader = PLANS["neighbor"]().loader()
    num_batches = len(list(loader))
    assert loader.stats(reset=True)["item_sampler"]["batches"] == num_batches
    assert not loader.stats()
    next(iter(loader))
    assert loader.stats()["item_sampler"]["batches"] == 1
    with pytest.raises(hr.InputError, match="reset"):
        loader.stats(reset="now")


def test_the_time_of_the_loop_is_divided_into_waiting_and_work():
    def slow(batch):
        time.sleep(0.02)
        return batch

    with items().transform(slow).loader(prefetch=False) as loader:
        for _ in loader:
            time.sleep(0.01)
    stats = loader.stats()
    num_batches = stats["item_sampler"]["batches"]
    assert stats.waited >= 0.02 * num_batches
    assert stats.worked >= 0.01 * (num_batches - 1)
    assert stats.waited_share == stats.waited / (stats.waited + stats.worked)
    assert stats.rates["batches"] == pytest.approx(num_batches / (stats.waited + stats.worked))
    assert stats.rates["seeds"] == pytest.approx(stats["item_sampler"]["seeds"] / (stats.waited + stats.worked))


def test_stats_are_dictionaries_for_json():
    loader = PLANS["neighbor"]().loader()
    list(loader)
    stats = loader.stats()
    found = json.loads(json.dumps(stats.as_dict()))
    assert found["stages"] == stats.stages
    assert found["rates"] == stats.rates
    assert found["waited"] == stats.waited


def test_scalars_are_flat():
    loader = PLANS["neighbor"]().loader()
    list(loader)
    stats = loader.stats()
    scalars = stats.scalars()
    assert scalars["loader/fetch_feature/bytes"] == stats["fetch_feature"]["bytes"]
    assert scalars["loader/waited_share"] == stats.waited_share
    assert scalars["loader/bytes_per_second"] == stats.rates["bytes"]
    assert len(scalars) == 2 + len(stats.rates) + sum(map(len, stats.stages.values()))
    assert all(isinstance(value, int | float) for value in scalars.values())


@pytest.mark.parametrize("name", PLANS)
def test_all_counters_are_documented(name):
    with PLANS[name]().loader() as loader:
        next(iter(loader))
        stats = loader.stats()
    counters = {counter for totals in stats.stages.values() for counter in totals}
    known = set(re.findall(r"``(\w+)``", type(stats).__doc__))
    assert {one for one in counters if not one.startswith("bytes_from_")} <= known


@pytest.mark.parametrize("name", ["stage", "a-b", "1a", "__name__", "ä", ""])
def test_labels_that_prometheus_does_not_take(name):
    with pytest.raises(hr.PlanError, match=f"expected labels of other names .*, got '{name}'; rename it"):
        items().loader().stats().prometheus(**{name: "a"})


def test_progress_bar_shows_the_epoch(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    list(items().loader(progress=True))
    assert "epoch 0" in capsys.readouterr().err


def test_no_progress_bar_without_a_terminal(capsys, monkeypatch):
    """A log file would be filled with a line for each step of the bar."""
    list(items().loader(progress=True))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    assert len(list(items().loader(progress=True))) == 6


def test_a_notebook_shows_progress_bars(capsys, monkeypatch):
    """Of tqdm for a terminal, which notebooks show as well."""
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    list(items().loader(progress=True))
    assert "epoch 0" in capsys.readouterr().err
