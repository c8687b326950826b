"""Positions of edges in a graph, as samplers take edges that they are not to pick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from headrace.ops._arrays import as_numpy
from headrace.ops.errors import InputError

if TYPE_CHECKING:
    from headrace.ops._native import Excluded


class EdgePositions(NamedTuple):
    """Edges of a graph, by row.

    Attributes
    ----------
    rows : torch.Tensor
        int64[num_rows], the destinations, ascending; with slots a row is repeated for each.
    starts : torch.Tensor
        int64[num_rows + 1]: the edges of ``rows[i]`` are ``positions[starts[i]:starts[i + 1]]``.
    positions : torch.Tensor
        int64[num_edges], the positions of edges in the graph's CSC arrays, ascending in each row.
    slots : torch.Tensor or None
        int64[num_rows], the tree for which each row is left out, ascending in a row; None for all trees.
    """

    rows: torch.Tensor
    starts: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor | None = None


class FoundOnGpu(EdgePositions):
    """Those that `find_edges` found on a GPU: they ascend in their rows, so that nobody waits there to check them."""

    __slots__ = ()


def check_excluded(excluded: object, stage: str) -> None:
    """Refuse what are no positions of edges.

    Raises
    ------
    InputError
        Saying so.
    """
    if not isinstance(excluded, EdgePositions):
        message = (
            f"{stage}: expected excluded to be what find_edges returned for this graph, got {type(excluded).__name__}"
        )
        raise InputError(message)


def native_excluded(excluded: EdgePositions | None, stage: str) -> Excluded | None:
    """Return edges as the kernels of the CPU take those that they are not to pick."""
    if excluded is None:
        return None
    check_excluded(excluded, stage)
    return (
        as_numpy(excluded.rows, "excluded.rows", stage=stage),
        as_numpy(excluded.starts, "excluded.starts", stage=stage),
        as_numpy(excluded.positions, "excluded.positions", stage=stage),
        None if excluded.slots is None else as_numpy(excluded.slots, "excluded.slots", stage=stage),
    )
