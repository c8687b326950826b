"""Owners by hash and ids in the order of their owners, on a device: twin of ``ops/native/partition/owners.cpp``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from headrace.cuda.faults import Faults
from headrace.cuda.launch import launch

#: Dtypes of the keys that ids are sorted by, with the most parts for each. torch sorts by the digits of keys, of eight
#: bits each: it goes over the ids of up to 256 ranks once.
_KEYS = ((1 << 8, torch.uint8), (1 << 15, torch.int16), (1 << 30, torch.int32))


def hash_owners(ids: Tensor, num_parts: int) -> Tensor:
    """Return int32[n], the part of each id of int64[n]."""
    owners = torch.empty(len(ids), dtype=torch.int32, device=ids.device)
    launch("hash_owners", (), len(ids), ids, len(ids), num_parts, owners, device=ids.device)
    return owners


def group_by_owner(ids: Tensor, owners: Tensor, num_parts: int, first: int) -> tuple[Tensor, Tensor, list[int]]:
    """Put ids in the order of their owners: those of part `first`, then those of part 0, of part 1, and so on.

    The host waits once, for the counts, which it needs to send anything.

    Parameters
    ----------
    ids
        int64[n].
    owners
        int32[n].
    num_parts, first
        Parts that there are, and one of them.

    Returns
    -------
    grouped, places : torch.Tensor
        int64[n]: the ids, and where each went.
    counts : list of int
        How many each part has.

    Raises
    ------
    Fault
        "no part" of an owner.
    """
    faults, order, ends = _in_order(owners, num_parts, first)
    by_key = ends.diff(prepend=ends.new_zeros(1))
    grouped, places = ids[order], _places(order)
    # The keys of parts are 0 for the first one, and 1, 2, ... for the others.
    own, *others = faults.check(by_key)
    return grouped, places, [*others[:first], own, *others[first:]]


def positions_in_parts(owners: Tensor, num_parts: int) -> Tensor:
    """Return int64[n], how many of the owners before each one of int32[n] are the same.

    Raises
    ------
    Fault
        "no part" of an owner.
    """
    faults, order, ends = _in_order(owners, num_parts, 0)
    faults.check()
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    return _places(order) - starts[owners.long()]


class _InOrder(NamedTuple):
    faults: Faults
    order: Tensor
    ends: Tensor


def _in_order(owners: Tensor, num_parts: int, first: int) -> _InOrder:
    """Return the stable order by owner, int64[n], and where each part ends in it, int64[num_parts], `first` in front.

    They mean nothing where there is a fault.
    """
    device, num_ids = owners.device, len(owners)
    faults = Faults(("no part",), device)
    arguments = (owners, num_ids, num_parts, None, 0, faults.items)
    launch("check_rows", (torch.int32,), num_ids, *arguments, device=device)
    dtype = next(dtype for most, dtype in _KEYS if num_parts <= most)
    keys = torch.where(owners == first, 0, owners + (owners < first)).to(dtype)
    in_order, order = torch.sort(keys, stable=True)
    parts = torch.arange(num_parts, dtype=dtype, device=device)
    return _InOrder(faults, order, torch.searchsorted(in_order, parts, right=True))


def _places(order: Tensor) -> Tensor:
    """Return where each item goes, of which item comes at each place."""
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
