"""Memory of tensors whose addresses something keeps between calls: torch may move it, or give it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable


class Borrowed:
    """The addresses of tensors at one time, and whether the tensors are still there.

    Torch replaces the memory of a tensor in place: when the tensor is pickled for another process, by
    ``share_memory_()``, ``resize_``, ``set_`` and ``tensor.data = other``. The old memory is freed, even where another
    tensor or a NumPy array views it. So whatever keeps an address asks `moved` before each use, and takes the addresses
    anew where they are others. Memory of NumPy arrays stays where it is.

    Parameters
    ----------
    arrays
        Tensors, arrays or None.
    """

    __slots__ = ("_addresses", "_tensors")

    def __init__(self, arrays: Iterable[Any]) -> None:
        # Sparse tensors have no memory of their own, and kernels refuse them.
        self._tensors = [one for one in arrays if isinstance(one, torch.Tensor) and one.layout == torch.strided]
        self._addresses = [tensor.data_ptr() for tensor in self._tensors]

    def moved(self) -> bool:
        """Whether a tensor has its memory elsewhere."""
        return list(map(torch.Tensor.data_ptr, self._tensors)) != self._addresses


def check_memory(tensor: torch.Tensor, name: str, stage: str) -> None:
    """Refuse a tensor whose memory was given back: kernels would read what is not theirs.

    Raises
    ------
    InputError
        If the storage is smaller than the tensor, as behind ``tensor.untyped_storage().resize_(0)``.
    """
    there = tensor.untyped_storage().nbytes()
    if tensor.nbytes <= there and tensor.is_contiguous() and tensor.storage_offset() == 0:
        return
    if tensor.numel() == 0:
        return
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    wanted = (tensor.storage_offset() + last + 1) * tensor.element_size()
    if wanted > there:
        raise InputError(
            f"{stage}: expected {name} to have its memory of {wanted:,} bytes, got a storage that was resized to "
            f"{there:,}; make it anew"
        )
