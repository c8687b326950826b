"""Rows that a GPU reads where they are."""

from __future__ import annotations

import headrace as hr

from gpu_plans import digests, fetched, names
from plans import graph, items, store, store_on_disk


def test_fires_for_rows_in_memory():
    assert "fetch_to" in names(fetched().copy_to("cuda"), stream_overlap=False)
    assert "fetch_to" in names(items().copy_to("cuda").sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"]))


def test_refuses_other_devices_and_rows_on_disk():
    assert "fetch_to" not in names(fetched().copy_to("meta"))
    assert "fetch_to" not in names(fetched().copy_to("cuda"), hr.Machine(cores=2))
    assert "fetch_to" not in names(fetched(store_on_disk).copy_to("cuda"))


def test_is_switched_off():
    assert "fetch_to" not in names(fetched().copy_to("cuda"), uva_gather=False)


def test_same_result():
    assert digests(fetched().copy_to("cuda")) == digests(fetched(), hr.Machine())
