"""Memory that is pinned is there until it is unpinned."""

from __future__ import annotations

import gc
import weakref

import torch

from headrace.ops.features import pinned
from headrace.ops.features.pinned import Pinned
from headrace.ops.gpu import release_pinned


def test_memory_lives_until_it_is_unpinned(monkeypatch):
    freed, seen = [], []
    monkeypatch.setattr(pinned, "pin", lambda tensor: lambda: seen.append(list(freed)))
    rows = torch.from_numpy(_watched(freed))
    keeper = Pinned(rows)
    del rows
    gc.collect()
    assert not freed
    del keeper
    gc.collect()
    assert seen == [[]]
    assert freed == [True]


def test_memory_of_copied_graphs_too():
    freed, seen = [], []
    tensor = torch.from_numpy(_watched(freed))
    weakref.finalize(tensor, release_pinned, lambda: seen.append(list(freed)), tensor.untyped_storage())
    del tensor
    gc.collect()
    assert seen == [[]]
    assert freed == [True]


def _watched(freed):
    array = torch.zeros(4).numpy().copy()
    weakref.finalize(array, freed.append, True)
    return array
