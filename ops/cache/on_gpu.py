"""The slots of a cache on a GPU: the twin of `headrace.cuda`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace.ops.gpu import device_errors

if TYPE_CHECKING:
    from headrace.cuda.cache import SetIndex


def made(num_slots: int, device: torch.device, *, is_mixed: bool) -> SetIndex:
    """Return the slots, 1 or more; with `is_mixed` a hash draws their sets, or else ids go round them."""
    from headrace.cuda.cache import SetIndex

    with device_errors():
        return SetIndex(num_slots, device, is_mixed=is_mixed)
