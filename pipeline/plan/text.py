"""Plans as text: one stage a line, source first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING
from typing import Any

import numpy as np
import torch

from headrace.pipeline.data.arrays import shown
from headrace.pipeline.plan.stage import Stage
from headrace.pipeline.plan.traits import same


def describe(stage: Stage, shown_as: Callable[[Any], str] | None = None) -> str:
    """Return one line, ``name(parameters)``, without parameters that have their default value.

    `shown_as` returns the text of a value, by default :func:`show`.
    """
    texts = []
    for one in stage.shown():
        if one.default is not MISSING and same(one.value, one.default):
            continue
        text = (shown_as or show)(one.value)
        texts.append(f"{one.name}={text}" if one.named else text)
    return f"{stage.name}({', '.join(texts)})" if texts else stage.name


def render(stages: Iterable[Stage], indent: str = "") -> str:
    """Return stages as text, one a line."""
    return "\n".join(f"{indent}{describe(stage)}" for stage in stages)


def show(value: Any) -> str:
    """Return a short text for a parameter value."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple):
        return f"[{', '.join(show(item) for item in value)}]"
    if callable(value):
        return str(getattr(value, "__qualname__", type(value).__name__))
    text = repr(value) if isinstance(value, str) else shown(value)
    # The default text of an object contains its address.
    return type(value).__name__ if " object at 0x" in text else text
