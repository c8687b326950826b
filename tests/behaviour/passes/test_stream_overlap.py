"""Copies and fetches on a stream of their own."""

from __future__ import annotations

from described_plans import fetched
from described_plans import names_on_gpu as names

import headrace as hr

from plans import graph, items, store


def test_fires_behind_a_prefetch():
    launched = ["on_stream", "copy_to", "fetch_to", "prefetch", "wait_stream"]
    assert names(fetched().copy_to("cuda"))[-6:] == ["prefetch", *launched]


def test_fires_where_users_put_the_prefetch_behind_the_copy():
    plan = fetched().copy_to("cuda").prefetch(workers=2)
    launched = ["on_stream", "copy_to", "fetch_to", "prefetch", "wait_stream"]
    assert names(plan)[-5:] == launched
    own = ["fetch_feature", "prefetch", "on_stream", "copy_to", "prefetch", "wait_stream"]
    assert names(fetched().prefetch().copy_to("cuda").prefetch())[-6:] == own
    assert names(fetched().copy_to("cuda").prefetch(workers=0))[-1] == "prefetch"
    labelled = items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"], labels="y")
    assert names(labelled.to_pyg().copy_to("cuda").prefetch())[-2:] == ["copy_to", "prefetch"]


def test_refuses_other_devices_and_threads_that_are_not_there():
    assert "on_stream" not in names(fetched().copy_to("meta"))
    assert "on_stream" not in names(fetched().copy_to("cuda"), hr.Machine(cores=1, gpus=1))
    assert "on_stream" not in names(fetched().prefetch(workers=0).copy_to("cuda"))


def test_is_switched_off():
    assert "on_stream" not in names(fetched().copy_to("cuda"), stream_overlap=False)
