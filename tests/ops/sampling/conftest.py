"""A graph of hubs for the tests of sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.ops import reference


@pytest.fixture(scope="module")
def skewed():
    """5,000 nodes, 100,000 edges, in-degrees up to some thousands, int32 indices."""
    random = np.random.default_rng(1)
    src = random.integers(0, 5_000, 100_000)
    dst = (5_000 * random.random(100_000) ** 6).astype(np.int64)
    indptr, indices, edge_ids = reference.coo_to_csc(src, dst, 5_000)
    return torch.from_numpy(indptr), torch.from_numpy(indices).int(), torch.from_numpy(edge_ids)
