"""Times of several units in the finest of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.formats.views import View
from headrace.pipeline.convert.table import Column, Table, as_int64

#: Units that files state, in nanoseconds, from the finest one.
NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "days": 86_400_000_000_000}


class Times(View):
    """Base of tables with times in some columns that are computed as they are read, as int64.

    Parameters
    ----------
    table
        The table.
    units
        The unit of each of these columns.
    """

    def __init__(self, table: Table, units: Mapping[str, str]) -> None:
        self._units = dict(units)
        super().__init__(table, {name: Column(np.dtype(np.int64), unit=unit) for name, unit in units.items()})

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        start = 0
        for chunk in self._table.chunks(columns, rows):
            yield {
                name: self._times(name, values, start) if name in self._units else values
                for name, values in chunk.items()
            }
            start += len(next(iter(chunk.values())))

    @abstractmethod
    def _times(self, name: str, values: NDArray[Any], start: int) -> NDArray[Any]:
        """Return the times of a column in some rows, of which the first is row `start`."""


class InUnit(Times):
    """A table whose times in some columns, which state their units, are in a finer one, as int64.

    Parameters
    ----------
    table
        The table.
    columns
        Of times. A column in `unit` stays.
    unit
        One of `NANOSECONDS`, and no coarser than those of the columns.
    """

    def __init__(self, table: Table, columns: Sequence[str], unit: str) -> None:
        self._factors = {name: _factor(table.column(name).unit, unit) for name in columns}
        super().__init__(table, dict.fromkeys(columns, unit))

    def _times(self, name: str, values: NDArray[Any], start: int) -> NDArray[Any]:
        factor, null = self._factors[name], np.ma.getmaskarray(values)
        plain = as_int64(np.where(null, 0, np.ma.getdata(values)), name, self.where, start)
        most = np.iinfo(np.int64).max // factor
        odd = (plain > most) | (plain < -most)
        if odd.any():
            row = int(odd.argmax())
            raise InputError(
                f"convert: {self.where(start + row)}: expected a time in {name!r} that has 64 bits in the unit "
                f"{self._units[name]!r}, which other times have, got {plain[row]}; convert those to a coarser unit"
            )
        found = plain * factor
        return np.ma.MaskedArray(found, null) if null.any() else found


def finest(units: Sequence[str]) -> str:
    """Return the finest of some units."""
    return min(units, key=NANOSECONDS.__getitem__)


def _factor(unit: str | None, finer: str) -> int:
    assert unit is not None
    return NANOSECONDS[unit] // NANOSECONDS[finer]
