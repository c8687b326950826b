"""Times of several units in the finest of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.formats.views import View
from headrace.pipeline.convert.table import Column, Table, as_int64

#: Units that files state, in nanoseconds, from the finest one.
NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "days": 86_400_000_000_000}


class InUnit(View):
    """A table whose times in some columns, which state their units, are in a finer one, as int64.

    Parameters
    ----------
    table
        The table.
    columns
        Of times. A column in `unit` stays, and one without any time has none before.
    unit
        One of `NANOSECONDS`, and no coarser than those of the columns.
    """

    def __init__(self, table: Table, columns: Sequence[str], unit: str) -> None:
        self._factors, self._unit = {name: _factor(table.column(name).unit, unit) for name in columns}, unit
        super().__init__(table, dict.fromkeys(columns, Column(np.dtype(np.int64), unit=unit)))

    def _changed(self, name: str, values: NDArray[Any], start: int) -> NDArray[Any]:
        factor, null = self._factors[name], np.ma.getmaskarray(values)
        plain = as_int64(np.where(null, 0, np.ma.getdata(values)), name, self.where, start)
        most = np.iinfo(np.int64).max // factor
        odd = (plain > most) | (plain < -most)
        if odd.any():
            row = int(odd.argmax())
            raise InputError(
                f"convert: {self.where(start + row)}: expected a time in {name!r} that has 64 bits in the unit "
                f"{self._unit!r}, which other times have, got {plain[row]}; convert those to a coarser unit"
            )
        found = plain * factor
        return np.ma.MaskedArray(found, null) if null.any() else found


def finest(units: Sequence[str]) -> str:
    """Return the finest of some units."""
    return min(units, key=NANOSECONDS.__getitem__)


def _factor(unit: str | None, finer: str) -> int:
    return 1 if unit is None else NANOSECONDS[unit] // NANOSECONDS[finer]
