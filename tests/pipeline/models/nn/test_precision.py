"""Devices that autocast does not know."""

from __future__ import annotations

import torch

from headrace.ops.aggregate.precision import widened


def test_devices_that_autocast_does_not_know():
    rows = torch.zeros(2, 2, dtype=torch.bfloat16, device="meta")
    assert widened(rows) is rows
