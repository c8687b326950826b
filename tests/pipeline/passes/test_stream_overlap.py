"""Copies and fetches on a stream of their own give the same result, where the CPU stands in for a GPU."""

from __future__ import annotations

import headrace as hr

from gpu_plans import digests, fetched


def test_same_result():
    assert digests(fetched().copy_to("cuda")) == digests(fetched(), hr.Machine())
    assert digests(fetched().copy_to("cuda").prefetch(workers=2)) == digests(fetched(), hr.Machine())
