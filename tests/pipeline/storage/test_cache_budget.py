"""Caches keep within their bytes, with what finds their rows."""

from __future__ import annotations

import pytest
import torch

from headrace import ops
from headrace.ops.cache.index import POLICIES, SLOT_BYTES

NUM_ROWS = 400_000
FEW = 256  # bytes of an index that do not depend on its slots


@pytest.mark.parametrize("policy", POLICIES)
def test_an_index_takes_no_more_than_it_says(policy):
    """The table of slots doubles: sizes around powers of two are the worst ones, and come close."""
    worst = 0.0
    for capacity in (1, 2, 3, 7, 100, 1000, 1025, 2049, 2276, 4097, 9011, 65536, 65537, 262_145):
        ids = torch.arange(capacity) if policy == "static" else None
        num_bytes = ops.CacheIndex(policy, capacity, NUM_ROWS, ids=ids).num_bytes
        assert num_bytes <= SLOT_BYTES[policy] * capacity + FEW
        worst = max(worst, (num_bytes - FEW) / capacity)
    assert worst > 0.98 * SLOT_BYTES[policy]
