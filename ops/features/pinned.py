"""Memory of the host that a GPU reads in place."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch

from headrace.ops.gpu import pin, release_pinned


class Pinned:
    """Memory of a tensor that is pinned where it is, as long as this lives.

    Parameters
    ----------
    tensor : torch.Tensor
        In memory of the CPU, contiguous.

    Raises
    ------
    HeadraceError
        If it cannot be pinned; the message says how much the system lets a process lock.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        unpin: Callable[[], None] = pin(tensor)
        # With the storage: it is there until it is unpinned.
        self._release = weakref.finalize(self, release_pinned, unpin, tensor.untyped_storage())


def is_readable_in_place(tensor: torch.Tensor) -> bool:
    """Whether a GPU could read rows of a tensor of the host once it is pinned: each in one piece, all in one."""
    return tensor.layout == torch.strided and tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj())
