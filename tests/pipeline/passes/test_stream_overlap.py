"""Copies and fetches on a stream of their own."""

from __future__ import annotations

import headrace as hr

from gpu_plans import digests, fetched, names


def test_fires_behind_a_prefetch():
    assert names(fetched().copy_to("cuda"))[-3:] == ["on_stream", "prefetch", "wait_stream"]


def test_refuses_other_devices_and_threads_that_are_not_there():
    assert "on_stream" not in names(fetched().copy_to("meta"))
    assert "on_stream" not in names(fetched().copy_to("cuda"), hr.Machine(cores=1, gpus=1))
    assert "on_stream" not in names(fetched().prefetch(workers=0).copy_to("cuda"))


def test_is_switched_off():
    assert "on_stream" not in names(fetched().copy_to("cuda"), stream_overlap=False)


def test_same_result():
    assert digests(fetched().copy_to("cuda")) == digests(fetched(), hr.Machine())
