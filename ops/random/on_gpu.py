"""Random masks where ids are on a GPU."""

from __future__ import annotations

import torch

from headrace.ops._arrays import Array
from headrace.ops.gpu import device_errors, on_device


def dropout_mask(key: int, ids: Array, width: int, threshold: int, device: torch.device, stage: str) -> torch.Tensor:
    """Do what `headrace.ops.dropout_mask` does."""
    from headrace.cuda.random import dropout_mask as mask

    values = on_device(ids, "ids", device, stage=stage)
    with device_errors():
        return mask(key, values, width, threshold)
