"""Feature sources that tests share."""

from __future__ import annotations

import torch

import headrace as hr


def in_memory(rows: torch.Tensor) -> hr.FeatureSource:
    """The source that a store makes of rows in memory."""
    return hr.FeatureStore(node={"x": rows}).node["x"]
