"""From the ids that users have to node numbers that count from 0 within a type, for integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops import InputError
from headrace.pipeline.convert.checked import Reference
from headrace.pipeline.convert.raw_array import RawArray
from headrace.pipeline.convert.table import Table, as_int64

Ids = NDArray[np.int64]

#: What a null or an id that no node has is looked up as.
UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class ExternalIds:
    """The users' own ids of the nodes of a type, in files.

    Parameters
    ----------
    values
        int64[num_nodes]; of texts their bytes in UTF-8, uint8.
    starts: int64[num_nodes + 1], optional
        The start of each text.
    order: int64[num_nodes], optional
        The nodes in the order of their ids; None where they have it.
    """

    values: RawArray
    num_values: int
    starts: RawArray | None
    order: RawArray | None


class NodeIds(ABC):
    """The ids of the nodes of a type.

    Attributes
    ----------
    num_nodes
        How many nodes there are; None if the largest id is not known yet.
    external
        The users' own ids, where these are not the numbers.
    num_rows
        How many of the nodes are rows of the table of nodes; the others were added.
    """

    num_nodes: int | None
    num_rows: int
    external: ExternalIds | None = None

    @abstractmethod
    def reader(self, reference: Reference) -> IdReader:
        """Return what reads the numbers of the nodes in a column, from its first row on."""


class IdReader(ABC):
    """Numbers of the nodes in a column, in the order of its rows.

    Attributes
    ----------
    column
        What to read of the table, and to pass to `take`; None if the numbers are known without it.
    num_rows
        The rows of the column, where it need not be read.
    advice
        For errors about unknown ids, the beginning of what to do, where ids of nodes may have been forgotten.
    """

    column: str | None
    num_rows: int = 0
    advice: str = ""

    @abstractmethod
    def take(self, values: NDArray[Any] | None, count: int) -> Ids:
        """Return the numbers of the next rows, `UNKNOWN` for ids without a node and for null."""


class DenseIds(NodeIds):
    """Ids that are node numbers."""

    def __init__(self, num_nodes: int | None, num_rows: int, advice: str = "") -> None:
        self.num_nodes = num_nodes
        self.num_rows = num_rows
        self._advice = advice

    def reader(self, reference: Reference) -> IdReader:
        """Return a reader of numbers that are below `num_nodes`."""
        return _DenseReader(reference, self.num_nodes, self._advice)


class IntegerIds(NodeIds):
    """Integers that are keys of nodes, looked up in a sorted array.

    Parameters
    ----------
    external
        The keys by node, and their order.
    """

    def __init__(self, external: ExternalIds, num_rows: int) -> None:
        self.external = external
        self.num_nodes = external.num_values
        self.num_rows = num_rows

    def reader(self, reference: Reference) -> IdReader:
        """Return a reader that looks keys up; it takes 16 bytes for each node."""
        assert self.num_nodes is not None  # keys are known before they are looked up
        values = self.external.values.rows(0, self.num_nodes) if self.external else np.empty(0, np.int64)
        order = None
        if self.external is not None and self.external.order is not None:
            order = self.external.order.rows(0, self.num_nodes)
            values = values[order]
        return KeyReader(reference, values, order)


class _DenseReader(IdReader):
    def __init__(self, reference: Reference, num_nodes: int | None, advice: str) -> None:
        self.column = reference.column
        self.advice = advice
        self._source = RowsOf(reference.table, reference.column)
        self._num_nodes = num_nodes

    def take(self, values: NDArray[Any] | None, count: int) -> Ids:  # noqa: ARG002 - values have their length
        assert values is not None
        start = self._source.row
        found, null = self._source.integers(values)
        if self._num_nodes is None:
            if found.size and int(found.min()) < 0 and not null[int(found.argmin())]:
                row = start + int(found.argmin())
                raise InputError(
                    f"convert: {self._source.where(row)}: expected a node number of at least 0 in "
                    f"{self._source.column!r}, got {found.min()}; pass --external (in TOML: external = true) for "
                    "ids that are keys"
                )
            outside = null
        else:
            outside = null | (found < 0) | (found >= self._num_nodes)
        if outside.any():
            found = np.where(outside, UNKNOWN, found)
        return found


class KeyReader(IdReader):
    """Looks keys up in a sorted array."""

    def __init__(self, reference: Reference, keys: Ids, order: Ids | None) -> None:
        self.column = reference.column
        self._source = RowsOf(reference.table, reference.column)
        self._keys = keys
        self._order = order

    def take(self, values: NDArray[Any] | None, count: int) -> Ids:  # noqa: ARG002 - values have their length
        """Return the nodes of the next keys."""
        assert values is not None
        found, null = self._source.integers(values)
        if not len(self._keys):
            return np.full(len(found), UNKNOWN, np.int64)
        at = np.minimum(np.searchsorted(self._keys, found), len(self._keys) - 1)
        unknown = null | (self._keys[at] != found)
        return np.where(unknown, UNKNOWN, at if self._order is None else self._order[at])


class RowsOf:
    """Integers of a column, with the row at which it is, for errors."""

    def __init__(self, table: Table, column: str) -> None:
        self.table = table
        self.column = column
        self.row = 0

    def where(self, row: int) -> str:
        """Return the file and row of a row."""
        return self.table.where(row)

    def integers(self, values: NDArray[Any]) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the next values as int64, and which are null.

        Raises
        ------
        InputError
            If they are no integers, or too large.
        """
        start, self.row = self.row, self.row + len(values)
        null = np.ma.getmaskarray(values)
        plain = np.ma.getdata(values)
        if plain.dtype.kind not in "iu":
            of_text = (
                f"write each as 1, not as 1.0 or with a space in front; of CSV pass --text-ids (in TOML: types = "
                f'{{ {self.column} = "text" }}) for ids that are texts'
            )
            raise InputError(
                f"convert: {self.table.name}: expected integers in {self.column!r}, got {plain.dtype}; "
                f"{of_text if plain.dtype.kind == 'f' else 'convert them'}"
            )
        return as_int64(plain, self.column, self.where, start), null


def chunks_of(table: Table, column: str, rows: int) -> Iterator[NDArray[Any]]:
    """Yield one column of a table."""
    for chunk in table.chunks([column], rows):
        yield chunk[column]
