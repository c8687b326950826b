"""Timelines of batches that were made up, and the number of records that are kept."""

from __future__ import annotations

import json

from headrace.pipeline.run.nodes import StageRecord
from headrace.pipeline.run.timeline import HandedOut, Timeline

from plans import PLANS


def test_the_last_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.pipeline.run.stats.MOST_RECORDS", 6)
    loader = PLANS["neighbor"]().loader()
    batches = len(list(loader))
    loader.profile(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    events = [event for event in events if event.get("cat") == "stage"]
    assert [event["args"]["batch"] for event in events] == [batches - 2] * 3 + [batches - 1] * 3


def record(stage: str, start: float, seconds: float, thread: int = 2) -> StageRecord:
    return StageRecord(stage, stage, start, seconds, thread, {})


def two_batches(rank: int = 0, world_size: int = 1) -> Timeline:
    batches = [
        HandedOut(0, 0, (record("items", 0.0, 1.0), record("fetch", 1.0, 1.0)), received=3.0, waited=0.5),
        HandedOut(0, 1, (record("items", 2.0, 0.5), record("fetch", 2.5, 0.25)), received=4.0, waited=0.25),
    ]
    return Timeline(batches, {1: "training loop", 2: "worker"}, 1, rank, world_size)


def test_how_many_batches_are_ready():
    assert two_batches().ready() == [(2.0, 1), (2.75, 2), (3.0, 1), (4.0, 0)]
    counters = [one["args"]["batches"] for one in two_batches().events() if one["ph"] == "C"]
    assert counters == [1, 2, 1, 0]
