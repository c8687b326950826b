"""Launching kernels: tensors become addresses, and every argument a word of eight bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from headrace.cuda.backend import backend_of, word_of
from headrace.cuda.instances import KERNELS

#: Threads of a block, where a kernel does not say otherwise.
BLOCK_SIZE = 128

#: What C++ calls the types of arrays.
TYPES = {
    torch.int32: "std::int32_t",
    torch.int64: "std::int64_t",
    torch.float32: "float",
    torch.float64: "double",
}


def launch(
    kernel: str,
    types: tuple[str | torch.dtype, ...],
    num_items: int,
    *arguments: Tensor | float | bool | None,
    device: torch.device,
    block_size: int = BLOCK_SIZE,
    also: Sequence[Tensor] = (),
) -> None:
    """Run a kernel for a number of items.

    Parameters
    ----------
    kernel
        Its name, one of `instances.KERNELS`.
    types
        Its template arguments, as dtypes or in the words of C++.
    num_items
        Items for which a thread each has work; with none nothing is launched.
    *arguments
        What the kernel takes. None stands for no array; tensors are contiguous, which stand-ins check.
    device
        Where it runs.
    block_size
        Threads of a block, a multiple of 32.
    also
        Tensors that the kernel reaches by addresses.
    """
    if num_items <= 0:
        return
    file, expression = _instance(kernel, types)
    # A batch has some twenty launches, and each argument costs a tenth of a microsecond here.
    words = list[int]()
    for value in arguments:  # no comprehension, which is a call before Python 3.12
        if value.__class__ is Tensor:
            words.append(value.data_ptr())
        elif value.__class__ is int:
            words.append(value)
        else:
            words.append(0 if value is None else word_of(value))
    known = (*arguments, *also) if also else arguments
    backend_of(device).launch(file, expression, num_items, block_size, words, known)


@cache
def _instance(kernel: str, types: tuple[str | torch.dtype, ...]) -> tuple[str, str]:
    """Return the file of an instance of a kernel and its name; small batches launch the same few each time."""
    names = tuple(TYPES[one] if isinstance(one, torch.dtype) else one for one in types)
    entry = KERNELS[kernel]
    assert names in entry.types, f"{kernel} has no instance of {names}"
    return entry.file, entry.expression(names)
