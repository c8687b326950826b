"""Integers of every width and kind, as operations take them: the same numbers, or refused."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import ops

X = torch.arange(6.0).reshape(3, 2)
ARRAYS = {
    "uint64": (np.array([0, 2, 1], np.uint64), [0, 2, 1]),
    "uint64 from 2**63 on": (np.array([0, 2**63 + 5, 1], np.uint64), None),
    "uint16 tensor": (torch.from_numpy(np.array([0, 2, 1], np.uint16)), [0, 2, 1]),
    "negative": (torch.tensor([0, -7, 1]), None),
    "above 32 bits": (torch.tensor([0, 2**32 + 2, 1]), None),
    "fractions": (torch.tensor([0.0, 1.5, 1.0]), None),
    "whole floats": (np.array([0.0, 2.0, 1.0]), None),
    "bool": (torch.tensor([False, True, True]), None),
    "list beyond 2**64": ([0, 2**70, 1], None),
}
COUNTS = {
    "hash_owners": lambda n: ops.hash_owners(torch.arange(3), n),
    "CacheIndex, capacity": lambda n: ops.CacheIndex("lru", n, 10) and n <= 10,
    "CacheIndex, rows": lambda n: ops.CacheIndex("lru", 2, n),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_ids_of_rows_are_exact_or_refused(kind):
    ids, exact = ARRAYS[kind]
    with contextlib.suppress(hr.HeadraceError):
        assert (ops.gather_rows(X, ids)[:, 0] / 2).int().tolist() == exact


@pytest.mark.parametrize("number", [1 << 62, 1 << 63, 1 << 70, np.uint64(2**63 + 5), -7, 1.5, 2.0, True, float("nan")])
@pytest.mark.parametrize("entry", COUNTS)
def test_counts_are_exact_or_refused(entry, number):
    with contextlib.suppress(hr.HeadraceError):
        assert COUNTS[entry](number) is not False
