"""Rows where ids are on a GPU: arguments for the twins of `headrace.cuda`, and errors from what these find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.autograd.graph import increment_version

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device

if TYPE_CHECKING:
    from headrace.cuda.rows import Tables
    from headrace.ops.features.tiers import TierSizes

_IDS = (torch.int32, torch.int64)


def gather(
    source: torch.Tensor,
    ids: Array,
    out: torch.Tensor | None,
    places: Array | None,
    device: torch.device,
    *,
    stage: str,
    trusted: bool,
) -> torch.Tensor:
    """Do what `gather_rows` does, for a source that the device reads in place and whose single rows are contiguous."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.rows import gather_rows

    wanted = on_device(ids, "ids", device, stage=stage, dtypes=_IDS)
    where = None if places is None else on_device(places, "places", device, stage=stage)
    if out is None and where is not None:
        raise InputError(f"{stage}: places are those of rows of out; give out too")
    if where is not None and len(where) != len(wanted):
        raise InputError(f"{stage}: expected a place for each of {len(wanted)} ids, got {len(where)}")
    given, out = out, _output(out, len(wanted), source, device, exact=where is None, stage=stage)
    try:
        with device_errors():
            gather_rows(source.detach(), wanted, out.detach(), where, trusted=trusted)
    except Fault as fault:
        if fault.kind == "no row":
            raise _no_row(
                fault.item, wanted, len(source), stage, "; the feature may be shorter than the graph"
            ) from fault
        raise _no_place(fault.item, where, out, stage) from fault
    if given is not None:
        increment_version(given)  # autograd has not seen the write
    return out


def check_ids(ids: torch.Tensor, num_rows: int) -> None:
    """Refuse ids on a GPU, int32[n] or int64[n], that have no rows, as `gather_rows` does; the host waits for that.

    Raises
    ------
    InputError
        Naming the first of them.
    """
    from headrace.cuda.faults import Fault
    from headrace.cuda.rows import check_ids

    stage = "gather_rows"
    wanted = on_device(ids, "ids", ids.device, stage=stage, dtypes=_IDS)
    try:
        with device_errors():
            check_ids(wanted, num_rows)
    except Fault as fault:
        raise _no_row(fault.item, wanted, num_rows, stage, "; the feature may be shorter than the graph") from fault


def locate(
    rank: Array, ids: Array, sizes: TierSizes, here: int, device: torch.device, *, stage: str
) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Do what `locate_and_count` does."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.rows import locate_rows

    ranks = on_device(rank, "rank", device, stage=stage, dtypes=_IDS, in_place=True)
    nodes = on_device(ids, "ids", device, stage=stage, dtypes=_IDS)
    counts = (sizes.replicated, sizes.interleaved, sizes.num_devices, sizes.host)
    try:
        with device_errors():
            return locate_rows(ranks, nodes, *counts, here)
    except Fault as fault:
        raise _no_row(fault.item, nodes, len(ranks), stage) from fault


def listed(tables: Sequence[torch.Tensor], device: torch.device) -> Tables:
    """Return tables that a device reads, contiguous and of one dtype, as the gather takes them."""
    from headrace.cuda.rows import Tables

    return Tables.on(device, tables)


def gather_from_tables(
    tables: Tables,
    table: Array,
    row: Array,
    out: torch.Tensor,
    places: Array | None,
    *,
    stage: str,
    trusted: bool,
) -> torch.Tensor:
    """Do what `gather_tables` does where `out` is, of tables that fit."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.rows import gather_tables

    device = out.device
    numbers = on_device(table, "table", device, stage=stage, dtypes=(torch.int32,))
    rows = on_device(row, "row", device, stage=stage)
    where = None if places is None else on_device(places, "places", device, stage=stage)
    if where is None and len(out) != len(rows):
        raise InputError(f"{stage}: expected a row of out for each of {len(rows)} rows, got {len(out)}")
    for name, other in (("row", rows), ("places", where)):
        if other is not None and len(other) != len(numbers):
            raise InputError(
                f"{stage}: expected {name} to have one entry for each of table ({len(numbers)}), got {len(other)}"
            )
    try:
        with device_errors():
            gather_tables(tables, numbers, rows, out.detach(), where, trusted=trusted)
    except Fault as fault:
        if fault.kind == "no row":
            count = len(tables.tensors)
            raise InputError(
                f"{stage}: there is no row {int(rows[fault.item])} in table {int(numbers[fault.item])} of {count}"
            ) from fault
        raise _no_place(fault.item, where, out, stage) from fault
    increment_version(out)
    return out


def gather_cached(
    cache: torch.Tensor, slots: torch.Tensor, fills: torch.Tensor, source: torch.Tensor, ids: torch.Tensor
) -> torch.Tensor:
    """Do what `gather_cached` does, of a cache, a source and ids that fit."""
    from headrace.cuda.cached_rows import fill_cache, gather_cached

    out = torch.empty((len(ids), *source.shape[1:]), dtype=source.dtype, device=ids.device)
    with device_errors():
        gather_cached(cache, slots, source, ids, out)
        fill_cache(cache, fills, out)
    return out


def missing_ids(slots: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what `missing_ids` does."""
    from headrace.cuda.cached_rows import missing_ids

    with device_errors():
        return missing_ids(slots, ids)


def scatter_add(out: torch.Tensor, ids: Array, rows: torch.Tensor, *, stage: str, trusted: bool) -> None:
    """Do what `scatter_add_rows` does where `out` is: both are contiguous and fit."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.rows import scatter_add_rows

    wanted = on_device(ids, "ids", out.device, stage=stage, dtypes=_IDS)
    try:
        with device_errors():
            scatter_add_rows(out, wanted, rows, trusted=trusted)
    except Fault as fault:
        raise _no_row(fault.item, wanted, len(out), stage) from fault


def _output(
    out: torch.Tensor | None, num_rows: int, source: torch.Tensor, device: torch.device, *, exact: bool, stage: str
) -> torch.Tensor:
    shape = (num_rows, *source.shape[1:])
    if out is None:
        return torch.empty(shape, dtype=source.dtype, device=device)
    plain = isinstance(out, torch.Tensor) and not (out.is_neg() or out.is_conj())
    fits = plain and out.shape[1:] == source.shape[1:] and (not exact or len(out) == num_rows)
    if not fits or out.dtype != source.dtype or out.device != device or not out.is_contiguous():
        got = f"{out.dtype}{list(out.shape)} on {out.device}" if isinstance(out, torch.Tensor) else type(out).__name__
        what = "CPU tensor" if device.type == "cpu" else f"tensor on {device},"
        raise InputError(
            f"{stage}: expected out to be a contiguous {what} {source.dtype}{list(shape)}, got {got}, "
            f"no lazy view: {plain}"
        )
    return out


def _no_row(item: int, ids: torch.Tensor, num_rows: int, stage: str, why: str = "") -> InputError:
    return InputError(
        f"{stage}: ids[{item}] = {int(ids[item])} has no row: expected 0 <= id < num_rows = {num_rows}{why}"
    )


def _no_place(item: int, places: torch.Tensor | None, out: torch.Tensor, stage: str) -> InputError:
    assert places is not None
    return InputError(
        f"{stage}: places[{item}] = {int(places[item])} is no row of out: expected 0 <= place < {len(out)}"
    )
