"""Rows of a shard as a GPU reads them: those of this rank, and its copies of others', in pinned memory."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.borrowed import Borrowed
from headrace.ops.features.gather import empty_rows
from headrace.ops.features.pinned import Pinned
from headrace.pipeline.partition.router import Located
from headrace.pipeline.storage.rows import Rows


class ShardOnGpu:
    """Two tables in CPU memory, pinned as long as this lives.

    Parameters
    ----------
    rows, copies: [num_owned, ...] and [num_copies, ...]
        Rows that this rank owns, and copies of rows of others; of one dtype and width, contiguous.
    part, num_parts
        This rank, and their number, by which a router names the copies.

    Raises
    ------
    HeadraceError
        If they cannot be pinned.
    """

    def __init__(self, rows: Tensor, copies: Tensor, part: int, num_parts: int) -> None:
        self._rows, self._copies = rows, copies
        self._part, self._num_parts = part, num_parts
        self._pinned = [Pinned(table) for table in (rows, copies) if table.nbytes]
        self._borrowed = Borrowed((rows, copies))

    def moved(self) -> bool:
        """Whether torch has moved the memory, so that it has to be pinned anew."""
        return self._borrowed.moved()

    def read(self, ids: Tensor, found: Located) -> Rows:
        """Return rows on the GPU that ids are on; the host waits once, to make sure that all are at this rank.

        Parameters
        ----------
        ids: int32[n] or int64[n]
            The rows, on a GPU.
        found
            Where they are.

        Raises
        ------
        InputError
            If another rank has one of them.
        """
        is_own, is_copy = found.place == self._part, found.place == self._num_parts
        num_own, num_copies = torch.stack([is_own.sum(), is_copy.sum()]).tolist()
        if num_own + num_copies < len(ids):
            first = int((~(is_own | is_copy)).nonzero()[0])
            raise elsewhere_at(int(ids[first]), int(found.place[first]), self._part)
        if num_copies == 0:
            rows = gather_rows(self._rows, found.row, trusted=True)
        else:
            rows = empty_rows((len(ids), *self._rows.shape[1:]), self._rows.dtype, ids.device)
            for table, chosen in ((self._rows, is_own), (self._copies, is_copy)):
                places = chosen.nonzero().squeeze(1)
                gather_rows(table, found.row[places], out=rows, places=places, trusted=True)
        return Rows(rows, {"bytes_from_pinned": rows.nbytes})


def elsewhere_at(row: int, rank: int, part: int) -> InputError:
    """Return the error for a row that is at another rank than the one that reads it; -1 where nobody knows at which."""
    if rank < 0:
        return InputError(
            f"ShardedFeature: the row of edge {row} is at another rank, that of its destination, this is rank {part}; "
            "let a loader ask for it, or keep the feature whole on every rank"
        )
    return InputError(
        f"ShardedFeature: row {row} is at rank {rank}, this is rank {part}; labels are read where they are needed, so "
        "keep those whole on every rank"
    )
