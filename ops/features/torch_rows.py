"""Gather and scatter-add by torch's own index operations, for devices that have no kernels of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from headrace.ops._arrays import Array

_IDS = (torch.int32, torch.int64)


def gather(
    source: Array, ids: torch.Tensor, out: torch.Tensor | None, places: Array | None, *, stage: str
) -> torch.Tensor:
    """Do what `gather_rows` does where `ids` are. Torch alone checks them, when the device comes to it."""
    table = _beside(source, "source", ids, stage)
    _check_ids(ids, "ids", stage)
    if out is None and places is not None:
        message = f"{stage}: places are those of rows of out; give out too"
        raise InputError(message)
    rows = table.detach().index_select(0, ids)
    if out is None:
        return rows
    target = _beside(out, "out", ids, stage)
    if target.dtype != table.dtype or target.shape[1:] != table.shape[1:] or (places is None and len(out) != len(ids)):
        message = (
            f"{stage}: expected out to be {rows.dtype}{list(rows.shape)}, with places of more rows, got "
            f"{target.dtype}{list(target.shape)}"
        )
        raise InputError(message)
    if places is None:
        target.detach().copy_(rows)
    else:
        where = _beside(places, "places", ids, stage)
        _check_ids(where, "places", stage)
        target.detach().index_copy_(0, where.long(), rows)
    return target


def scatter_add(out: torch.Tensor, ids: Array, rows: torch.Tensor, *, stage: str) -> torch.Tensor:
    """Do what `scatter_add_rows` does where `out` is, but for the order of sums, which is the device's."""
    places = _beside(ids, "ids", out, stage)
    _check_ids(places, "ids", stage)
    values = _beside(rows, "rows", out, stage)
    expected = (len(places), *out.shape[1:])
    if tuple(values.shape) != expected or values.dtype != out.dtype:
        got = f"{values.dtype}{list(values.shape)}"
        message = f"{stage}: expected rows to be {out.dtype}{list(expected)}, one row per id, got {got}"
        raise InputError(message)
    out.detach().index_add_(0, places, values.detach())
    return out


def _beside(value: Array, name: str, other: torch.Tensor, stage: str) -> torch.Tensor:
    """Return a dense tensor of at least one dimension that is on the device of another one, or refuse it."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.ndim == 0:
        what = f"{value.layout}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        message = f"{stage}: expected {name} to be a dense tensor of rows on {other.device}, got {what}"
        raise InputError(message)
    if value.device != other.device:
        message = (
            f"{stage}: expected {name} to be on {other.device}, as the other arguments are, got a tensor on "
            f"{value.device}; pass {name}.to({str(other.device)!r})"
        )
        raise InputError(message)
    return value


def _check_ids(ids: torch.Tensor, name: str, stage: str) -> None:
    if ids.ndim != 1 or ids.dtype not in _IDS:
        message = f"{stage}: expected {name} to be a 1-d tensor of int32 or int64, got {ids.dtype}{list(ids.shape)}"
        raise InputError(message)
