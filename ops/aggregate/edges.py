"""What aggregations take: rows of edges, tables of rows, and arrays of edges, checked once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from headrace.ops._arrays import ID_DTYPES, Array, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows
from headrace.ops.gpu import kernels_for

if TYPE_CHECKING:
    from headrace.ops import _native

DTYPES = (torch.float32, torch.float64)
Kernel = TypeVar("Kernel", bound=Callable[..., None])


@dataclass(frozen=True)
class EdgeRows:
    """Rows of edges as an aggregation is given them; what they hold is checked where it is read.

    Attributes
    ----------
    indptr, indices, positions, num_threads, trusted
        As for `spmm`.
    stage : str
        The aggregation, which errors name.
    """

    indptr: Array
    indices: Array
    positions: Array | None
    num_threads: int | None
    trusted: bool
    stage: str

    @property
    def num_rows(self) -> int:
        """Rows.

        Raises
        ------
        InputError
            For an `indptr` without entries.
        """
        if len(self.indptr) == 0:
            message = f"{self.stage}: expected indptr to have num_nodes + 1 entries, got none"
            raise InputError(message)
        return len(self.indptr) - 1

    def on_cpu(self) -> tuple[_native.EdgeRows, int]:
        """Return rows as kernels of the CPU take them, and how many threads may work; their lengths are checked.

        Raises
        ------
        InputError
            For other types, dtypes, lengths or devices.
        """
        starts, others = graph_arrays(self.indptr, self.indices, self.stage)
        places = None
        if self.positions is not None:
            places = as_numpy(self.positions, "positions", stage=self.stage, dtypes=ID_DTYPES)
            self.check_positions(places.size, others.size)
            if places.dtype != others.dtype:
                others, places = others.astype(np.int64, copy=False), places.astype(np.int64, copy=False)
        return (starts, others, places), as_num_threads(self.num_threads, stage=self.stage)

    def check_positions(self, count: int, num_edges: int) -> None:
        """Check how many positions there are.

        Raises
        ------
        InputError
            If they are not as many as edges.
        """
        if count != num_edges:
            raise InputError(f"{self.stage}: expected positions to have one entry per edge ({num_edges}), got {count}")


def check_table(value: torch.Tensor, name: str, stage: str, *, rows: int | None = None, like: Any = None) -> None:
    """Check that a tensor is [rows, ...] of a dtype that is summed.

    Raises
    ------
    InputError
        For another type, dtype, device than that of `like`, or number of rows.
    """
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        what = value.layout if isinstance(value, torch.Tensor) else type(value).__name__
        message = f"{stage}: expected {name} to be a dense tensor of float32 or float64, got {what}"
        raise InputError(message)
    if value.dtype not in DTYPES or value.ndim == 0:
        message = (
            f"{stage}: expected {name} to be [rows, ...] of float32 or float64, got {value.dtype}{list(value.shape)}"
        )
        raise InputError(message)
    if rows is not None and value.shape[0] != rows:
        message = f"{stage}: expected {name} to have {rows} rows, got {value.dtype}{list(value.shape)}"
        raise InputError(message)
    if like is not None and (value.dtype != like.dtype or value.device != like.device):
        message = (
            f"{stage}: expected {name} to be of {like.dtype} on {like.device}, as the rows are, "
            f"got {value.dtype} on {value.device}; convert it"
        )
        raise InputError(message)


def check_shape(value: torch.Tensor, name: str, stage: str, shape: tuple[int, ...], like: torch.Tensor) -> None:
    """Check a tensor of a known shape, dtype and device.

    Raises
    ------
    InputError
        For any other.
    """
    check_table(value, name, stage, like=like)
    if tuple(value.shape) != shape:
        message = f"{stage}: expected {name} to be {list(shape)}, got {list(value.shape)}"
        raise InputError(message)


def check_written(value: torch.Tensor, name: str, stage: str, shape: tuple[int, ...], like: torch.Tensor) -> None:
    """Check a tensor that a kernel writes to: also contiguous and aligned.

    Raises
    ------
    InputError
        For any other.
    """
    check_shape(value, name, stage, shape, like)
    if not is_readable(value):
        message = f"{stage}: expected {name} to be contiguous and aligned, got strides {list(value.stride())}"
        raise InputError(message)


def is_readable(value: torch.Tensor) -> bool:
    """Whether kernels can read a tensor as it is."""
    return value.is_contiguous() and not value.is_neg() and value.data_ptr() % value.element_size() == 0


def check_winners(value: torch.Tensor, stage: str, shape: tuple[int, ...], like: torch.Tensor) -> None:
    """Check positions of edges that have won.

    Raises
    ------
    InputError
        If they are not int64 of a shape, where `like` is.
    """
    if not isinstance(value, torch.Tensor) or value.dtype != torch.int64 or tuple(value.shape) != shape:
        got = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        message = f"{stage}: expected winners to be a tensor of int64{list(shape)}, got {got}"
        raise InputError(message)
    if value.device != like.device:
        message = f"{stage}: expected winners to be on {like.device}, as the rows are, got a tensor on {value.device}"
        raise InputError(message)


def readable(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor as a table of two dimensions that kernels read: a copy if they cannot read its memory."""
    plain = value.detach()
    if not is_readable(plain):
        plain = plain.resolve_neg().contiguous()
        plain = plain if is_readable(plain) else plain.clone()
    return plain.view(plain.shape[0], math.prod(plain.shape[1:]))


def check_weight(weight: torch.Tensor | None, x: torch.Tensor, stage: str) -> None:
    """Check weights [num_positions], or [num_positions, heads] for rows [num_rows, heads, ...].

    Raises
    ------
    InputError
        For another shape, dtype or device.
    """
    if weight is None:
        return
    check_table(weight, "weight", stage, like=x)
    if weight.ndim > 2 or (weight.ndim == 2 and (x.ndim < 2 or weight.shape[1] != x.shape[1] or x.shape[1] == 0)):
        message = (
            f"{stage}: expected weight to be [num_edges], or [num_edges, heads] where rows are [heads, ...], "
            f"got {list(weight.shape)} for rows {list(x.shape[1:])}"
        )
        raise InputError(message)


def heads_of(weight: torch.Tensor) -> int | None:
    """Return the heads of weights [num_edges, heads]; None for [num_edges]."""
    return None if weight.ndim == 1 else weight.shape[1]


def new_rows(num_rows: int, x: torch.Tensor) -> torch.Tensor:
    """Return an uninitialised tensor of as many rows as those of `x`."""
    return empty_rows((num_rows, *x.shape[1:]), x.dtype, x.device)


def by_device(x: torch.Tensor, on_cpu: Kernel, on_gpu: Kernel, on_torch: Kernel) -> Kernel:
    """Return the one of three that works where a tensor is: torch's operations where there are no kernels."""
    if kernels_for(x) is not None:
        return on_gpu
    return on_cpu if x.is_cpu else on_torch
