"""Owners of vertices by hash, where each vertex is among those of its owner, and owners of edges on a grid."""

from __future__ import annotations

import math

import torch

#: Odd constants of the finalizer of SplitMix64 (Steele, Lea and Flood, 2014), as signed 64-bit integers.
_MULTIPLIERS = (-4658895280553007687, -7723592293110705685)
_SHIFTS = (30, 27, 31)


def hash_owners(ids: torch.Tensor, num_parts: int) -> torch.Tensor:
    """Return a part for each id that depends on nothing but the id and the number of parts.

    Parameters
    ----------
    ids : torch.Tensor
        int64[n].
    num_parts : int
        At least 1, below 2**31.

    Returns
    -------
    torch.Tensor
        int32[n], in [0, num_parts).
    """
    mixed = ids.to(torch.int64)
    for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, None), strict=True):
        # torch shifts keep the sign; the mask makes them those of unsigned integers.
        mixed = mixed ^ ((mixed >> shift) & ((1 << (64 - shift)) - 1))
        if multiplier is not None:
            mixed = mixed * multiplier
    # The upper half times the number of parts, divided by 2**32: every part gets an equal share of the hashes.
    upper = (mixed >> 32) & 0xFFFF_FFFF
    return ((upper * num_parts) >> 32).to(torch.int32)


def positions_in_parts(owners: torch.Tensor, num_parts: int) -> torch.Tensor:
    """Return where each vertex is among those of its owner, in ascending order of ids.

    Parameters
    ----------
    owners : torch.Tensor
        int32[num_nodes], in [0, num_parts).
    num_parts : int
        Number of parts.

    Returns
    -------
    torch.Tensor
        int64[num_nodes].
    """
    counts = torch.bincount(owners, minlength=num_parts)
    starts = counts.cumsum(0) - counts
    order = torch.sort(owners, stable=True).indices
    positions = torch.empty(len(owners), dtype=torch.int64)
    positions[order] = torch.arange(len(owners)) - starts[owners[order].to(torch.int64)]
    return positions


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
