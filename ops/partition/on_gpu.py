"""Owners where ids are on a GPU: arguments for the twins of `headrace.cuda`, and errors from what these find."""

from __future__ import annotations

import torch

from headrace.ops._arrays import Array
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_errors, on_device

_MOST_PARTS = 1 << 30


def hash_owners(ids: Array, num_parts: int, device: torch.device, stage: str) -> torch.Tensor:
    """Do what `headrace.ops.hash_owners` does."""
    from headrace.cuda.owners import hash_owners

    _check_parts(num_parts, stage)
    values = on_device(ids, "ids", device, stage=stage)
    with device_errors():
        return hash_owners(values, num_parts)


def group(
    ids: Array, owners: Array, num_parts: int, first: int, device: torch.device, stage: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Do what `headrace.ops.group_by_owner` does."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.owners import group_by_owner

    _check_parts(num_parts, stage)
    if first >= num_parts:
        raise InputError(f"{stage}: expected first to be in [0, num_parts), got {first}")
    values = on_device(ids, "ids", device, stage=stage)
    parts = on_device(owners, "owners", device, stage=stage, dtypes=(torch.int32,))
    if len(values) != len(parts):
        raise InputError(f"{stage}: expected an owner for each of {len(values)} ids, got {len(parts)}")
    try:
        with device_errors():
            grouped, places, counts = group_by_owner(values, parts, num_parts, first)
    except Fault as fault:
        raise _no_part(fault.item, parts, num_parts, stage) from fault
    return grouped, places, torch.tensor(counts, dtype=torch.int64, device="cpu")


def positions(owners: Array, num_parts: int, device: torch.device, stage: str) -> torch.Tensor:
    """Do what `headrace.ops.positions_in_parts` does."""
    from headrace.cuda.faults import Fault
    from headrace.cuda.owners import positions_in_parts

    _check_parts(num_parts, stage)
    parts = on_device(owners, "owners", device, stage=stage, dtypes=(torch.int32,))
    try:
        with device_errors():
            return positions_in_parts(parts, num_parts)
    except Fault as fault:
        raise _no_part(fault.item, parts, num_parts, stage) from fault


def _check_parts(num_parts: int, stage: str) -> None:
    if not 1 <= num_parts <= _MOST_PARTS:
        raise InputError(f"{stage}: expected num_parts to be in [1, 2**30], got {num_parts}")


def _no_part(item: int, owners: torch.Tensor, num_parts: int, stage: str) -> InputError:
    owner = int(owners[item])
    return InputError(f"{stage}: owners[{item}] = {owner} is no part: expected 0 <= owner < num_parts = {num_parts}")
