"""Features in compressed sparse rows, read as dense ones."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops import InputError, scatter_add_rows
from headrace.ops.graphs.rows import edge_positions, row_starts
from headrace.ops.memory_limit import check_fits_memory
from headrace.pipeline.data import CPU, Place, as_cpu_tensor, as_ids, refuse_gradient, sampled_digest, whole_number
from headrace.pipeline.data.digest import content_mark
from headrace.pipeline.data.seen import WHOLE_BELOW_BYTES
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.rows import Rows, check_to


class SparseRows(FeatureSource):
    """A feature source over a sparse matrix, such as words in documents, whose rows are float32 and dense when read.

    Parameters
    ----------
    indptr: int32[num_rows + 1] or int64[num_rows + 1]
        Row i has the entries ``indptr[i]`` to ``indptr[i + 1] - 1``.
    indices: int32[num_entries] or int64[num_entries]
        Their columns; those that come twice in a row are added up.
    data: [num_entries]
        Their values.
    num_columns
        Columns.

    Raises
    ------
    InputError
        If the arrays contradict each other, or a dense row does not fit in memory.
    """

    def __init__(self, indptr: ArrayLike, indices: ArrayLike, data: ArrayLike, num_columns: int) -> None:
        self._indptr = as_ids(indptr, "indptr").to(torch.int64)
        self._columns = as_ids(indices, "indices")
        refuse_gradient(data, "data")
        self._values = as_cpu_tensor(data, "data")
        self._num_columns = whole_number(num_columns, "SparseRows: num_columns", 0, InputError)
        check_fits_memory(
            4 * self._num_columns,
            f"SparseRows: a dense row of {num_columns} columns",
            "name fewer columns",
        )
        ends = (int(self._indptr[0]), int(self._indptr[-1])) if len(self._indptr) else None
        if ends != (0, len(self._columns)) or bool((self._indptr.diff() < 0).any()):
            raise InputError(
                f"SparseRows: expected indptr to rise from 0 to the number of entries, {len(self._columns)}; its ends "
                f"are {ends}"
            )
        if self._values.shape != self._columns.shape:
            raise InputError(
                f"SparseRows: expected a value for each of {len(self._columns)} entries, got {list(self._values.shape)}"
            )
        low, high = map(int, torch.aminmax(self._columns)) if len(self._columns) else (0, -1)
        if low < 0 or high >= num_columns:
            raise InputError(f"SparseRows: expected columns in [0, {num_columns}), got {low} to {high}")

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type of dense rows."""
        return torch.float32

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape, num_rows first."""
        return len(self._indptr) - 1, self._num_columns

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:  # noqa: ARG002 - of the protocol
        """Return the rows of `ids`, float32[num_ids, num_columns]; bytes count as those of dense rows."""
        check_to(self, to)
        starts = row_starts(self._indptr, ids)
        row = torch.repeat_interleave(torch.arange(len(ids), device="cpu"), starts.diff())
        rows = torch.zeros(len(ids), self._num_columns, dtype=torch.float32, device="cpu")
        for piece, positions in edge_positions(self._indptr, ids, starts):
            places = row[piece] * self._num_columns + self._columns[positions].long()
            # One after the other, so that a column that comes several times has the same sum in every run.
            scatter_add_rows(rows.view(-1, 1), places, self._values[positions].float()[:, None])
        return Rows(rows, {"bytes_from_cpu": rows.nbytes})

    def content_digest(self) -> str:
        """Return a fingerprint of the sparse matrix; large arrays are sampled."""
        arrays = [("indptr", self._indptr), ("indices", self._columns), ("data", self._values)]
        return sampled_digest([*arrays, ("num_columns", torch.tensor(self._num_columns, device="cpu"))])

    def content_mark(self) -> str:
        """Return a string that differs when the arrays were written; above 1 GiB each is sampled."""
        arrays = self._indptr, self._columns, self._values
        return " ".join(content_mark(array, WHOLE_BELOW_BYTES) for array in arrays)
