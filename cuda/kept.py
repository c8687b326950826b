"""Memory elsewhere that kernels read in place: it is not given to others before they have run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from headrace.cuda import backend

#: Of memory of the host that is alive: the addresses and streams that torch's allocator of it knows of.
_known: dict[int, tuple[Any, set[tuple[int, int, int]]]] = {}
#: Memory that is gone is forgotten when there is so much of it.
_MOST_KNOWN = 1024


def keep(tensor: Tensor, device: torch.device) -> None:
    """Keep memory that the current stream of a device reads in place, though its tensors may be gone before that.

    The memory of a device needs nothing on its own stream. Torch's allocator of pinned memory knows of no kernels; but
    it gives memory to others only behind all streams that have copied from it without a wait. So a byte is copied, once
    for each memory and stream.
    """
    if backend.is_on(tensor, device) or tensor.nbytes == 0:
        return
    stand_in = backend.stand_in_of(device)
    if stand_in is not None:
        stand_in.keep(tensor)
    elif tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(device))
    elif device.type == "cuda":
        _keep_pinned(tensor, device)


def _keep_pinned(tensor: Tensor, device: torch.device) -> None:
    storage = tensor.untyped_storage()
    number = storage._cdata  # noqa: SLF001 - its own as long as there is a weak reference to it
    use = storage.data_ptr(), device.index, torch.cuda.current_stream(device).cuda_stream
    known = _known.get(number)
    if known is not None and not known[0].expired() and use in known[1]:
        return
    if known is None or known[0].expired():
        if len(_known) >= _MOST_KNOWN:
            for place, (alive, _) in list(_known.items()):
                if alive.expired():
                    _known.pop(place, None)
        known = _known[number] = StorageWeakRef(storage), set()  # type: ignore[no-untyped-call]
    torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)[:1].to(device, non_blocking=True)
    known[1].add(use)
