"""Batches on the GPU of a process are the same, where the CPU stands in for it."""

from __future__ import annotations

import headrace as hr

from gpu_plans import digests, fetched


def test_same_result():
    machine = hr.Machine(gpus=2, current_gpu=1)
    assert digests(fetched().copy_to("cuda"), machine) == digests(fetched(), hr.Machine())
