"""The rows of some of many nodes, as a part of a graph has them: no array has an entry for each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import torch

from headrace.ops._arrays import Array, graph_arrays
from headrace.ops.errors import InputError
from headrace.ops.graphs.ranks import Ranks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headrace.ops import _native


@dataclass(frozen=True, eq=False, repr=False)
class RankedRows:
    """Where the in-edges of some nodes are, in the place of an indptr of all.

    Attributes
    ----------
    starts : torch.Tensor
        int64[num_rows + 1], the bounds of the rows that there are, in the order of their nodes. Those of all other
        nodes are empty.
    ranks : Ranks
        Which nodes these are.
    """

    starts: torch.Tensor
    ranks: Ranks

    @staticmethod
    def of(ids: Array, starts: torch.Tensor, num_ids: int) -> RankedRows:
        """Return the rows of nodes.

        Parameters
        ----------
        ids : torch.Tensor or numpy.ndarray
            int64[num_rows], nodes in [0, num_ids), ascending.
        starts : torch.Tensor
            int64[num_rows + 1].
        num_ids : int
            Nodes, with and without a row.

        Raises
        ------
        InputError
            For ids that do not ascend or are out of range, or another number of starts.
        """
        if len(starts) != len(ids) + 1:
            message = f"RankedRows: expected {len(ids) + 1} bounds of rows, got {len(starts)}"
            raise InputError(message)
        return RankedRows(starts, Ranks.of(ids, num_ids))

    @property
    def blocks(self) -> torch.Tensor:
        """Which nodes have a row, int64[8 * num_blocks]: `Ranks.blocks`."""
        return self.ranks.blocks

    @property
    def num_ids(self) -> int:
        """Nodes, with and without a row."""
        return self.ranks.num_ids

    @property
    def native(self) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
        """What kernels on a CPU take."""
        return self.starts.numpy(), self.ranks.native, self.num_ids

    def replaced(self, starts: torch.Tensor) -> RankedRows:
        """Return rows of the same nodes with other bounds."""
        return replace(self, starts=starts)


def row_arrays(rows: Array | RankedRows, indices: Array, stage: str) -> tuple[_native.Rows, _native.IdArray]:
    """Check the dtypes, lengths and ends of the rows of a graph or of a part, as `graph_arrays` does."""
    if not isinstance(rows, RankedRows):
        return graph_arrays(rows, indices, stage)
    _, sources = graph_arrays(rows.starts, indices, stage)
    return rows.native, sources


@overload
def bounds_of(rows: torch.Tensor | RankedRows) -> torch.Tensor: ...
@overload
def bounds_of(rows: Array | RankedRows) -> Array: ...
def bounds_of(rows: Array | RankedRows) -> Array:
    """Return the bounds of the rows that there are."""
    return rows.starts if isinstance(rows, RankedRows) else rows
