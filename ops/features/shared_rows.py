"""Rows in memory of one device that other processes of this machine read in place: no copy for each process."""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Sequence

import torch

from headrace.ops.errors import HeadraceError
from headrace.ops.gpu import opened_memory, shared_memory


class SharedRows:
    """Rows that this process shares.

    On a GPU they are shared through CUDA IPC. In CPU memory, which stands in for a GPU, they are in a file without a
    name, which goes with its last process.

    Parameters
    ----------
    rows : torch.Tensor
        [num_rows, ...] in CPU memory, contiguous. They are copied.
    device : torch.device
        Where to keep them.

    Attributes
    ----------
    rows : torch.Tensor
        The rows there.
    handle : str
        What another process opens them by, with `opened_rows`.

    Raises
    ------
    HeadraceError
        If the memory cannot be shared.
    """

    def __init__(self, rows: torch.Tensor, device: torch.device) -> None:
        self._close: weakref.finalize[[int], SharedRows] | None = None
        self.handle = ""
        if rows.nbytes == 0 or device.type != "cpu":
            self.rows = rows.to(device)
            if rows.nbytes:
                self.handle = shared_memory(self.rows)
            return
        if not hasattr(os, "memfd_create"):
            raise HeadraceError(
                "SharedRows: expected Linux, where processes share CPU memory without files, got another"
            )
        file = os.memfd_create("headrace", os.MFD_CLOEXEC)
        self._close = weakref.finalize(self, os.close, file)  # its memory is freed with its last reader
        os.truncate(file, rows.nbytes)
        self.handle = f"{os.getpid()}/fd/{file}"
        self.rows = opened_rows(self.handle, rows.shape, rows.dtype, device)
        self.rows.copy_(rows)

    def close(self) -> None:
        """Let nobody else open the rows; who has opened them keeps them."""
        if self._close is not None:
            self._close()


def opened_rows(handle: str, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return rows that another process shares: the same memory, not a copy.

    Parameters
    ----------
    handle : str
        That of its `SharedRows`.
    shape : sequence of int
        [num_rows, ...].
    dtype : torch.dtype
        Element type of the rows.
    device : torch.device
        A GPU, or the CPU, which stands in for one.

    Raises
    ------
    HeadraceError
        If they cannot be opened: their process has ended, or they have another size.
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if num_bytes == 0:
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    if device.type == "cpu":
        try:
            file = os.open(f"/proc/{handle}", os.O_RDWR | os.O_CLOEXEC)
            try:
                memory = mmap.mmap(file, num_bytes)
            finally:
                os.close(file)
        except (OSError, ValueError) as error:
            raise HeadraceError(f"opened_rows: expected {num_bytes} shared bytes, got none: {error}") from error
        rows = torch.frombuffer(memory, dtype=torch.uint8).view(dtype)
    else:
        rows = opened_memory(handle)
    if rows.nbytes != num_bytes or rows.dtype != dtype:
        raise HeadraceError(
            f"opened_rows: expected {num_bytes} shared bytes of {dtype}, got {rows.nbytes} of {rows.dtype}"
        )
    return rows.view(tuple(shape))
