"""Timelines: who ran what when, what the training loop waited for, and how many batches were ready."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest

import headrace as hr

from copies import run_program
from plans import PLANS, items


def events_of(path: Path, category: str | None = None) -> list[dict]:
    events = json.loads(path.read_text())["traceEvents"]
    return events if category is None else [one for one in events if one.get("cat") == category]


def test_stages_of_each_batch(tmp_path):
    loader = PLANS["neighbor"]().loader()
    batches = len(list(loader))
    assert loader.profile(tmp_path / "trace.json") == tmp_path / "trace.json"
    events = events_of(tmp_path / "trace.json", "stage")
    assert len(events) == 3 * batches
    assert {event["name"] for event in events} == {"item_sampler", "sample_neighbor: sample_fused", "fetch_feature"}
    assert all(event["dur"] >= 0 and event["args"]["epoch"] == 0 for event in events)


def test_the_loop_and_its_threads(tmp_path):
    loader = PLANS["neighbor"]().prefetch(workers=1).loader()
    for _ in loader.epochs(2):
        for _batch in loader:
            time.sleep(0.002)
    loader.profile(tmp_path / "trace.json")
    events = events_of(tmp_path / "trace.json")
    names = {one["tid"]: one["args"]["name"] for one in events if one["name"] == "thread_name"}
    assert sorted(set(names.values())) == ["headrace-prefetch-0", "training loop"]
    assert {one["args"]["name"] for one in events if one["name"] == "process_name"} == {"headrace"}
    loop = [one for one in events if one.get("cat") == "loop"]
    assert {names[one["tid"]] for one in loop} == {"training loop"}
    waits = [one for one in loop if one["name"] == "wait"]
    works = [one for one in loop if one["name"] == "work"]
    per_epoch = len(waits) // 2
    assert len(works) == 2 * (per_epoch - 1)  # the time between epochs is not work with a batch
    assert all(one["dur"] >= 2_000 for one in works)
    stats = loader.stats()
    assert sum(one["dur"] for one in waits) / 1e6 == pytest.approx(stats.waited)
    assert sum(one["dur"] for one in works) / 1e6 == pytest.approx(stats.worked, rel=0.1)
    for one, after in pairwise(loop):  # one thing at a time
        assert one["ts"] + one["dur"] <= after["ts"] + 100


def test_each_rank_has_its_file(tmp_path):
    paths = []
    for rank in range(2):
        loader = PLANS["neighbor"]().loader(rank=rank, world_size=2)
        list(loader)
        paths.append(loader.profile(tmp_path / "trace.json"))
    assert [path.name for path in paths] == ["trace.rank0.json", "trace.rank1.json"]
    for rank, path in enumerate(paths):
        events = events_of(path)
        assert {one["pid"] for one in events} == {rank}
        assert events[0]["args"] == {"name": f"rank {rank} of 2"}


@pytest.mark.slow
def test_pictures(tmp_path):
    loader = PLANS["neighbor"]().prefetch(workers=1).loader()
    with pytest.raises(hr.PlanError, match="expected batches to draw, got none yet"):
        loader.profile(tmp_path / "early.png")
    list(loader)
    assert loader.profile(tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")
    drawn = loader.profile(tmp_path / "trace.svg").read_text()
    names = ("training loop", "headrace-prefetch-0", "wait", "work", "item_sampler", "fetch_feature")
    assert all(f"<!-- {name} -->" in drawn for name in names)


@pytest.mark.parametrize("name", ["trace.txt", "trace"])
def test_other_formats(tmp_path, name):
    with pytest.raises(hr.PlanError, match=r"expected a name that ends in .json, .png, .* pass one such as"):
        items().loader().profile(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_folder_that_is_missing(tmp_path):
    with pytest.raises(hr.PlanError, match=r"profile: expected a folder for trace.json, got .*/missing, which is none"):
        items().loader().profile(tmp_path / "missing" / "trace.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_picture_without_matplotlib(tmp_path):
    program = f"""
import sys
sys.modules["matplotlib"] = None
import headrace as hr
loader = hr.ItemSampler(9, batch_size=3).loader()
list(loader)
try:
    loader.profile({str(tmp_path / "trace.png")!r})
except ImportError as error:
    print(error)
"""
    result = run_program(program)
    assert "matplotlib" in result.stdout, result.stderr
    assert "headrace[plot]" in result.stdout
