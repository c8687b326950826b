"""Owners of nodes by hash, where each is among those of its owner, and owners of edges on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, as_numpy
from headrace.ops.errors import InputError
from headrace.ops.gpu import device_of
from headrace.ops.partition import on_gpu


def hash_owners(ids: Array, num_parts: int) -> torch.Tensor:
    """Return a part for each id, which depends only on the id and the number of parts.

    The upper half of the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), scaled to the number of parts.

    Parameters
    ----------
    ids : torch.Tensor or numpy.ndarray
        int64[n].
    num_parts : int
        At least 1, at most 2**30.

    Returns
    -------
    torch.Tensor
        int32[n], in [0, num_parts), where `ids` are.

    Raises
    ------
    InputError
        For a wrong dtype, shape or number of parts.
    """
    stage = "hash_owners"
    num_parts = as_count(num_parts, "num_parts", stage=stage)
    device = device_of(ids)
    if device is not None:
        return on_gpu.hash_owners(ids, num_parts, device, stage)
    return torch.from_numpy(_native.hash_owners(as_numpy(ids, "ids", stage=stage), num_parts))


@dataclass(frozen=True)
class Grouped:
    """Ids in the order of their owners.

    Attributes
    ----------
    ids : torch.Tensor
        int64[n], sorted by owner; ids of one owner keep their order.
    places : torch.Tensor
        int64[n], the position of each given id: ``grouped.ids[grouped.places]`` are the given ids.
    counts : torch.Tensor
        int64[num_parts], the number of ids of each part; always in CPU memory, where sizes of messages are needed.
    """

    ids: torch.Tensor
    places: torch.Tensor
    counts: torch.Tensor


def group_by_owner(ids: Array, owners: Array, num_parts: int, *, first: int = 0) -> Grouped:
    """Sort ids by owner: those of part `first`, then those of part 0, of part 1, and so on.

    Parameters
    ----------
    ids : torch.Tensor or numpy.ndarray
        int64[n].
    owners : torch.Tensor or numpy.ndarray
        int32[n], in [0, num_parts), where `ids` are.
    num_parts : int
        At least 1, at most 2**30.
    first : int
        In [0, num_parts).

    Raises
    ------
    InputError
        For an owner that is not a part, or a wrong dtype, shape or number of parts.
    """
    stage = "group_by_owner"
    parts, front = as_count(num_parts, "num_parts", stage=stage), as_count(first, "first", stage=stage)
    device = device_of(ids)
    if device is not None:
        return Grouped(*on_gpu.group(ids, owners, parts, front, device, stage))
    grouped, places, counts = _native.group_by_owner(
        as_numpy(ids, "ids", stage=stage), as_numpy(owners, "owners", stage=stage, dtypes=("int32",)), parts, front
    )
    return Grouped(torch.from_numpy(grouped), torch.from_numpy(places), torch.from_numpy(counts))


def positions_in_parts(owners: Array, num_parts: int) -> torch.Tensor:
    """Return the position of each node among the nodes of its owner, in ascending order of ids.

    Parameters
    ----------
    owners : torch.Tensor or numpy.ndarray
        int32[num_nodes], in [0, num_parts).
    num_parts : int
        Number of parts.

    Returns
    -------
    torch.Tensor
        int64[num_nodes].

    Raises
    ------
    InputError
        As for `group_by_owner`.
    """
    stage = "positions_in_parts"
    parts = as_count(num_parts, "num_parts", stage=stage)
    device = device_of(owners)
    if device is not None:
        return on_gpu.positions(owners, parts, device, stage)
    values = as_numpy(owners, "owners", stage=stage, dtypes=("int32",))
    try:
        _, places, counts = _native.group_by_owner(None, values, parts, 0)
    except InputError as error:
        raise InputError(str(error).replace("group_by_owner", stage, 1)) from None
    places -= (counts.cumsum() - counts)[values]
    return torch.from_numpy(places)


def grid_columns(num_parts: int) -> int:
    """Return the columns of the grid of `num_parts` parts that is nearest to a square: its larger side.

    A prime number of parts is one row.

    Parameters
    ----------
    num_parts : int
        At least 1.
    """
    rows = next(rows for rows in range(math.isqrt(num_parts), 0, -1) if num_parts % rows == 0)
    return num_parts // rows


def edge_owners(source_owners: torch.Tensor, destination_owners: torch.Tensor, num_columns: int) -> torch.Tensor:
    """Return the part of edges in a grid: the row of the owner of the source, the column of that of the destination.

    With one column, edges are with the owner of their source; with one row, with that of their destination.

    Parameters
    ----------
    source_owners, destination_owners : torch.Tensor
        int32[num_edges]; part p is in row ``p // num_columns`` and column ``p % num_columns``.
    num_columns : int
        At least 1.

    Returns
    -------
    torch.Tensor
        int32[num_edges].
    """
    return source_owners - source_owners % num_columns + destination_owners % num_columns
