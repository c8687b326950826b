"""What kernels get where torch casts by itself: as its own sparse functions, they compute in single precision there."""

from __future__ import annotations

import torch

#: What autocast makes of rows, which kernels do not take.
_NARROW = (torch.bfloat16, torch.float16)


def widened(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that autocast has made narrow in float32, and any other as it is; gradients flow back.

    It is what ``torch.amp.custom_fwd(cast_inputs=torch.float32)`` does, for any device. Outside of autocast narrow rows
    are left to be refused.
    """
    if isinstance(x, torch.Tensor) and x.dtype in _NARROW and _casts(x.device.type):
        return x.float()
    return x


def _casts(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:  # before torch 2.4
        return torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()
    except RuntimeError:  # of devices that autocast does not know
        return False
