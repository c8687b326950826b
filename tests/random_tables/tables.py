"""Tables as they were written, what may be expected of a conversion of them, and where documents leave a choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Rows of CSV that tell types.
FIRST = 1_000

#: Where the documents leave open what a table becomes: each option is right, and a conversion takes one of them for
#: the whole data set. "refuse" stands for an error with the file and the row or column.
CHOICES: Mapping[str, tuple[str, ...]] = {
    # The first 1,000 rows tell types; a later cell of another type is refused, or the column has the wider type. Of
    # times the first file may be all that is looked at.
    "types of first rows": ("refuse", "all rows"),
    # A column of integers whose first 1,000 rows are empty may be one of floating point.
    "empty first rows": ("integers", "numbers"),
    # `""` in a column of texts or ids is a text or null. In numbers and times it is null.
    "quoted empty text": ("null", "text"),
    # Ids such as 1.0 or " 1" are refused in CSV today. They may be integers if they are whole, or texts.
    "ids that are numbers": ("refuse", "texts", "integers"),
    # All ids of a column look like booleans or vectors.
    "ids of other types": ("texts", "refuse"),
    "ids from 2**63": ("refuse", "integers", "texts"),
    "bytes": ("refuse", "texts"),
    # Numbers of nodes without a table, most of which no edge has.
    "numbers with gaps": ("numbers", "refuse"),
    "negative numbers of nodes": ("refuse", "unknown"),
    "integers beyond 64 bits": ("refuse", "numbers"),
    # Integers that float64 does not have, in a column with fractions, or in a column of times beside one with these.
    "integers among fractions": ("nearest", "refuse"),
    "integers beside fractions as times": ("refuse", "exact"),
    "beyond float64": ("refuse", "infinite"),
    "beyond float32": ("refuse", "float64"),
    # "3,99" in all rows is a vector only where somebody is told so.
    "decimal commas": ("refuse", "numbers", "warned vectors"),
    # 007 is the number 7 or a text.
    "labels with zeros in front": ("numbers", "texts"),
    # "1,234" in all rows.
    "labels that are vectors": ("texts", "vectors", "refuse"),
    # Neither has room for -100, which stands for no label.
    "booleans or unsigned labels with nulls": ("refuse", "wider"),
    # One attribute has one dtype, whatever the types of edges.
    "attributes of several dtypes": ("refuse", "one for all"),
    # No integer type has the numbers of all columns of a feature.
    "integers without a common type": ("refuse", "exact"),
    # Whether classes of rows that are left out are among the texts that are numbered.
    "classes of left out rows": ("all rows", "kept rows"),
    "not a time": ("null", "refuse"),
    # 2024/05/31 10:00, 2024-05-31T10:00+02, 2024-05-31T10:00 UTC
    "other times": ("refuse", "read"),
    "nanoseconds in texts": ("refuse", "ns"),
    "times with and without unit": ("refuse", "as they are"),
    "no nodes": ("refuse", "empty"),
    # A null, or a weight that is none, of a row that a policy leaves out.
    "cells of left out rows": ("nothing is asked", "refuse"),
    "empty split": ("no items", "refuse"),
}


@dataclass(frozen=True)
class Refusal:
    """An error that is right.

    Parameters
    ----------
    files
        One of which the error names.
    rows
        One of which it names, unless it has one of `words`.
    """

    reason: str
    files: tuple[str, ...]
    rows: frozenset[int] = frozenset()
    words: tuple[str, ...] = ()

    def is_told_by(self, message: str) -> bool:
        if self.files and not any(name in message for name in self.files):
            return False
        if not self.rows and not self.words:
            return True
        told = {int(number) for number in re.findall(r"\b(?:row|line)s? #?(\d+)", message, re.IGNORECASE)}
        return bool(told & self.rows) or any(word in message for word in self.words)


@dataclass(eq=False)
class Column:
    """Cells as they were written.

    Parameters
    ----------
    cells
        Of CSV texts; None where nothing was written, and "" for `""`. Of Parquet Python values; times are integers in
        the unit of the type.
    type
        "csv", or the name of a type of Arrow.
    declared
        Of CSV: the type that the description gives.
    """

    name: str
    cells: list[Any]
    type: str = "csv"
    declared: str | None = None

    @property
    def quoted(self) -> str:
        """The name as errors have it."""
        return repr(self.name)


@dataclass(eq=False)
class Table:
    """Columns by name, and the file and row that each row was written to.

    Parameters
    ----------
    places
        For each row its file, and the numbers that an error may give the row: of CSV they count from 1 with the header,
        as rows or as lines, and of Parquet from 0.
    """

    name: str
    columns: dict[str, Column]
    num_rows: int
    places: list[tuple[str, frozenset[int]]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    may_be_refused: list[Refusal] = field(default_factory=list)

    @property
    def is_csv(self) -> bool:
        return all(column.type == "csv" for column in self.columns.values())


@dataclass(eq=False)
class Numbers:
    """The rows of a feature, an attribute, labels or times.

    Parameters
    ----------
    values
        Integers, `Decimal`, floats and booleans, tuples of these, or `MISSING` and `EARLIEST`.
    dtypes
        Those that are right; None for any that holds the values.
    width
        How many numbers a row is; None where rows are numbers.
    """

    values: list[Any]
    dtypes: frozenset[str] | None = None
    width: int | None = None

    def of(self, rows: Sequence[int]) -> Numbers:
        return Numbers([self.values[row] for row in rows], self.dtypes, self.width)


class Mark(str):
    """What is kept in place of a value."""

    __slots__ = ()


MISSING = Mark("no label")
EARLIEST = Mark("the earliest time")
ABSENT = Mark("NaN or 0")


class UndecidedError(Exception):
    """A choice without a decision."""


class Judge:
    """The decisions of one reading of tables, and the reasons to refuse them."""

    def __init__(self, decisions: Mapping[str, str]) -> None:
        self.decisions = decisions
        self.refusals: list[Refusal] = []
        self.warnings: list[str] = []

    def choose(self, name: str) -> str:
        if name not in self.decisions:
            raise UndecidedError(name)
        return self.decisions[name]

    def refuse(self, reason: str, table: Table, rows: Sequence[int] | None = None, words: Sequence[str] = ()) -> None:
        """Note a reason to refuse a table in one of some rows, or of which errors have one of some words."""
        for row in rows or ():
            file, numbers = table.places[row]
            self.refusals.append(Refusal(reason, (file,), numbers))
        if rows is None or (rows and words):
            self.refusals.append(Refusal(reason, tuple(table.files), words=tuple(words)))


def readings(read: Callable[[Judge], Any], decisions: Mapping[str, str] | None = None) -> Iterator[tuple[Judge, Any]]:
    """Yield what is read by each combination of decisions that matters."""
    judge = Judge(decisions or {})
    try:
        result = read(judge)
    except UndecidedError as undecided:
        (name,) = undecided.args
        for option in CHOICES[name]:
            yield from readings(read, {**judge.decisions, name: option})
        return
    yield judge, result
