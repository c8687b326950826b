"""Policies of caches, and the bytes that a row takes in one."""

from __future__ import annotations

import re

import pytest
import torch

import headrace as hr

POLICIES = ("static", "lru", "clock", "s3-fifo", "sieve", "look-ahead")


def cached_bytes(row_bytes: int, policy: str | None = None, **options: object) -> int:
    """Bytes of a budget that one row takes, with what finds it, as the refusal of too small a budget names them."""
    rows = torch.zeros(4, row_bytes, dtype=torch.uint8)
    if policy == "static":
        options["ids"] = torch.arange(4)
    with pytest.raises(hr.InputError) as refusal:
        hr.CachedFeature(rows, *([policy] if policy else []), bytes=1, **options)
    return int(re.search(r"a row takes (\d+) bytes", str(refusal.value))[1])
