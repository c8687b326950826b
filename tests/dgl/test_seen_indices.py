"""Modes of ours see indices under the torch that DGL needs, which does not show them to others."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headrace.pipeline.models.by_parts.seen_indices import SeeingIndices


class Names(SeeingIndices):
    """Notes what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_indices_are_seen_as_long_as_a_mode_runs():
    rows, index = torch.eye(3), torch.tensor([2, 0])
    with Names() as outer:
        assert rows[index].tolist() == [[0, 0, 1], [1, 0, 0]]
        with Names() as inner:
            rows[1:], nn.Parameter(rows)[index]
        assert inner.called[:2] == ["__getitem__"] * 2
        rows[0]
    assert outer.called.count("__getitem__") == 4
    assert rows[index].tolist() == [[0, 0, 1], [1, 0, 0]]
