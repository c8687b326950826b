"""Random values: ids, numbers, times and texts as people's tables have them, and some that they should not have."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from random_tables.tables import FIRST, Column

#: Texts that readers of tables have taken for something else.
ODD_TEXTS = (
    "null", "NULL", "None", "NA", "N/A", "nan", "NaN", "inf", "true", "False", "1e5", "0x1F", "007", "-0", "+5", "1.0",
    "1_000", "1,234", "3,99", "2024-05-31", "12:30", "9223372036854775808", "#", "# not a comment", "%s", "{}", "$1",
    "--", " ", "  a", "a  ", "a\tb", "a;b", "a|b", "a,b", 'say "hi"', '"', '""', "'", "it's", "back\\slash", "\\N",
    "a" * 300, "line\nbreak", "line\r\nbreak", "carriage\rreturn", "\u200b", "\u00a0", "\u2028", "\x7f", "\ufeffx",
    "\uffff", "\u00e9", "e\u0301", "\u00c5", "\u212b", "A\u030a", "ß", "SS", "\u0130", "\u0131", "\ufb01", "fi",
    "日本語", "עברית", "nul\0", "😀", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0010ffff",
)  # fmt: skip

WORDS = ("red", "green", "blue", "Blau", "Grün", "rouge", "", "a b", "x", "X", "y", "z", "drama", "comedy")

#: Names of columns that are hard to quote.
NAMES = (
    "select", "user id", "größe", "a,b", "u.v", 'q"q', "it's", "rowid", "row", "Group By", "*?", "a;b", "%", "$1",
    "file_row_number",
)  # fmt: skip

#: Numbers of floating point that are to be kept as they are.
SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0)

#: Integers without an absolute value of their type.
LEAST = [-(2 ** (bits - 1)) for bits in (8, 16, 32, 64)]

#: What tables have that a conversion may not be able to read; `Values.kind` draws each.
KINDS = frozenset({
    "a header alone without a line end",
    "an open quote behind the first rows",
    "beyond float32",
    "bytes",
    "decimal",
    "decimal commas",
    "empty split",
    "float keys",
    "ids of nulls alone",
    "integers side by side without a common type",
    "items without a time",
    "labels of nulls alone",
    "more than 1,000 classes",
    "not a time",
    "nulls in unsigned labels",
    "pairs with the largest number of a node",
    "stars in patterns",
    "string_view",
    "table without rows",
    "texts as labels of items",
    "texts among numbers of attributes in part files, or like Python's",
    "texts beside num_nodes",
    "times of integers beside fractions",
    "times of nulls alone",
    "types of part files",
    "types that nothing reads",
    "unsigned labels of added nodes and loops",
    "vectors of nothing",
})  # fmt: skip


class Values:
    """Draws from one generator.

    Parameters
    ----------
    without
        Kinds of tables that are not drawn.
    """

    def __init__(self, seed: object, without: frozenset[str]) -> None:
        self.random = random.Random(f"tables of {seed}")
        self.without = without
        self.kinds: set[str] = set()

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def kind(self, name: str, probability: float) -> bool:
        """Whether a kind that a conversion may not read is drawn."""
        assert name in KINDS
        is_drawn = self.chance(probability) and name not in self.without
        if is_drawn:
            self.kinds.add(name)
        return is_drawn

    def one(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def text(self) -> str:
        if self.chance(0.3):
            return self.one(ODD_TEXTS)
        if self.chance(0.5):
            return self.one(WORDS) + str(self.random.randrange(100))
        return "".join(
            chr(self.random.choice((97, 65, 228, 1080, 0x4E00, 0x1F600)) + i)
            for i in range(self.random.randrange(1, 5))
        )

    # Ids

    def keys(self, count: int) -> list[Any]:
        """Different ids, integers or texts."""
        draw = self.one([
            self._contiguous, self._gaps, self._gaps, self._huge, self._texts, self._texts, self._zeros, self._numbered,
            self._hashes if self.chance(0.5) else self._gaps,
        ])  # fmt: skip
        found = list(dict.fromkeys(draw(count)))
        if self.chance(0.7):
            self.random.shuffle(found)
        return found

    def _contiguous(self, count: int) -> list[Any]:
        first = self.one([0, 0, 1, 1000])
        return list(range(first, first + count))

    def _gaps(self, count: int) -> list[Any]:
        return self.random.sample(range(-3 * count - 5, 9 * count + 20), count)

    def _huge(self, count: int) -> list[Any]:
        ends = [2**63 - 1, -(2**63), 2**53 + 1, 2**32, 2**31 - 1, 10**18]
        return [self.one(ends) if self.chance(0.1) else self.random.randrange(10**18, 2**63) for _ in range(count)]

    def _hashes(self, count: int) -> list[Any]:
        return [self.random.randrange(2**64) for _ in range(count)]

    def _texts(self, count: int) -> list[Any]:
        return [text if (text := self.text()) else "x" for _ in range(count)] if count < 60 else self._numbered(count)

    def _zeros(self, count: int) -> list[Any]:
        return [f"{i:0{self.one([3, 6])}}" for i in self.random.sample(range(2 * count + 9), count)]

    def _numbered(self, count: int) -> list[Any]:
        name = self.one(["n", "ü", "user ", "", "-"])
        return [f"{name}{i}" if name or i % 3 else f"a{i}" for i in self.random.sample(range(3 * count + 9), count)]

    def unknown_key(self, keys: Sequence[Any]) -> Any:
        """An id that is none of some."""
        if keys and isinstance(keys[0], str):
            return f"unknown {self.random.randrange(30)}"
        return next(key for key in (self.random.randrange(10**6, 10**9) for _ in range(9)) if key not in keys)

    def id_column(self, name: str, cells: Sequence[Any], *, is_csv: bool, may_be_null: bool = True) -> Column:
        """Cells of integers, texts and None in a type that holds them."""
        there = [cell for cell in cells if cell is not None]
        if is_csv:
            return Column(name, [cell if cell is None else str(cell) for cell in cells])
        if any(isinstance(cell, str) for cell in there):
            kind = self.one(["string", "string", "large_string", "dictionary"])
            if self.kind("string_view", 0.1):
                kind = "string_view"
            if self.kind("bytes", 0.07):
                return Column(name, [cell if cell is None else cell.encode() for cell in cells], "binary")
            return Column(name, list(cells), kind)
        low, high = min(there, default=0), max(there, default=0)
        fitting = [f"int{bits}" for bits in (8, 16, 32, 64) if -(2 ** (bits - 1)) <= low and high < 2 ** (bits - 1)]
        fitting += [f"uint{bits}" for bits in (8, 16, 32, 64) if low >= 0 and high < 2**bits]
        if self.kind("decimal", 0.08):
            return Column(name, [cell if cell is None else Decimal(cell) for cell in cells], "decimal128(20, 0)")
        if may_be_null and max(abs(low), abs(high)) < 2**53 and self.kind("float keys", 0.08):
            nan = float("nan")
            return Column(name, [nan if cell is None else float(cell) for cell in cells], "float64")
        return Column(name, list(cells), self.one([*fitting, fitting[-1]]))

    # Numbers

    def number_column(self, name: str, count: int, role: str, *, is_csv: bool) -> Column:
        """Numbers for a "feature", part of a "wide" one, a "weight", an "attribute" or a "label"."""
        if is_csv:
            return Column(name, self._csv_numbers(count, role))
        return self._parquet_numbers(name, count, role)

    def _csv_numbers(self, count: int, role: str) -> list[str | None]:
        number: Callable[[], str] = self.one(
            [self._small, self._small, self._float, self._float, self._exponent, self._digits]
        )
        if role == "feature":
            if self.kind("decimal commas", 0.03):
                return [f"{self.random.randrange(99)},{self.random.randrange(99):02}" for _ in range(count)]
            if self.chance(0.08):
                width = self.one([3, 5])
                return [",".join(self._float() for _ in range(width)) for _ in range(count)]
            if self.chance(0.06):
                return [self.one(["true", "false", "True", "FALSE"]) for _ in range(count)]
        if role in ("feature", "wide", "attribute"):
            if self.kind("beyond float32", 0.02):
                number = lambda: self.one(["1e39", "-4e38", "3.5"])  # noqa: E731
            elif self.chance(0.1):
                special = ["inf", "-inf", "nan", "NaN", "-0.0", "Infinity", "1.5", "1e-320", "5e-46"]
                special += ["1e400"] if self.chance(0.1) else []
                number = lambda: self.one(special)  # noqa: E731
            elif self.chance(0.07):
                number = lambda: self.one(["+5", " 2", "3 ", "1.", ".5", "-.5", "1E3", "1e+3"])  # noqa: E731
            elif self.chance(0.07):
                number = lambda: f"{self.random.randrange(999):05}"  # noqa: E731
        if role == "label" and self.chance(0.07):
            number = lambda: f"{self.random.randrange(20):03}"  # noqa: E731
        if role in ("feature", "attribute", "label") and self.chance(0.1):
            number = lambda: str(self.random.randrange(-(2**63), 2**63))  # noqa: E731
        cells = [number() for _ in range(count)]
        if count > FIRST and self.chance(0.15):  # the first rows are of another type, or of none
            is_label = role == "label" and self.chance(0.5)
            cells[:FIRST] = [None if is_label else self._small() for _ in range(FIRST)]
        return [cell and cell.lstrip("-") for cell in cells] if role == "weight" else cells

    def _small(self) -> str:
        return str(self.random.randrange(-5, 100))

    def _float(self) -> str:
        return self.one(["{!r}", "{:.3f}", "{:.1f}"]).format(self.random.uniform(-10, 10))

    def _exponent(self) -> str:
        number = f"{self.random.uniform(-10, 10):.{self.random.randrange(9)}f}"
        return f"{number}{self.one('eE')}{self.one(['', '+', '-'])}{self.random.randrange(30):0{self.one([1, 2])}}"

    def _digits(self) -> str:
        return f"{self.random.randrange(1000)}.{self.random.randrange(10**30):030}"

    def _parquet_numbers(self, name: str, count: int, role: str) -> Column:
        kinds = [
            "int8",
            "int16",
            "int32",
            "int64",
            "uint8",
            "uint16",
            "uint32",
            "uint64",
            "float16",
            "float32",
            "float64",
        ]
        kinds += ["float32", "float64", "int64"] + ["bool"] * (role in ("feature", "attribute"))
        kind = self.one(kinds)
        if self.kind("decimal", 0.07):
            kind = self.one(["decimal128(10, 2)", "decimal128(38, 10)", "decimal128(12, 0)"])
        if role == "feature" and self.chance(0.2):
            item, width = self.one(["float32", "float64", "float16", "int64", "uint8"]), self.random.randrange(1, 5)
            if self.kind("vectors of nothing", 0.05):
                return Column(name, [[] for _ in range(count)], f"list<{item}>")
            outer = self.one(["list<{}>", "large_list<{}>", f"fixed_size_list<{{}}>[{width}]"]).format(item)
            return Column(name, [[self.value(item) for _ in range(width)] for _ in range(count)], outer)
        cells = [self.value(kind) for _ in range(count)]
        if kind.startswith("float") and role in ("feature", "attribute", "label") and self.chance(0.15):
            cells = [self.one([*SPECIAL, cell]) for cell in cells]
        if role == "label":  # -100 is no label
            cells = [7 if cell == -100 else cell for cell in cells]
        if role == "weight" and kind != "bool":
            cells = [0 if cell in LEAST else abs(cell) for cell in cells]
        return Column(name, cells, kind)

    def value(self, kind: str) -> Any:
        """A value of a type of Parquet."""
        if kind == "bool":
            return self.chance(0.5)
        if kind.startswith("decimal"):
            precision, scale = (int(part) for part in kind[len("decimal128(") : -1].split(", "))
            return Decimal(self.random.randrange(-(10 ** (precision - 1)), 10 ** (precision - 1))).scaleb(-scale)
        if kind.startswith("float"):
            number = self.random.uniform(-100, 100)
            code = {"float16": "e", "float32": "f", "float64": "d"}[kind]
            return struct.unpack(code, struct.pack(code, number))[0]
        bits = int(kind.lstrip("uint"))
        low, high = (0, 2**bits) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        return self.random.randrange(low, high) if self.chance(0.3) else self.random.randrange(0, min(high, 100))

    # Times

    def time_column(self, name: str, count: int, family: str, *, is_csv: bool) -> Column:
        """Times of a family: "integers", "numbers", or those with a "unit"."""
        if is_csv or (family == "unit" and self.chance(0.2)):
            cells = self._csv_times(count, family)
            return Column(name, cells, "csv" if is_csv else "string")
        if family == "integers":
            kind = self.one(["int8", "int32", "int64", "int64", "uint16"])
            return Column(name, [self.value(kind) for _ in range(count)], kind)
        if family == "numbers":
            kind = self.one(["float32", "float64"])
            return Column(name, [self.value(kind) for _ in range(count)], kind)
        units = ["s", "ms", "us", "ns", "us, UTC", "ms, Europe/Berlin", "ns, +02:00"]
        kind = self.one(["date32", "date64", *(f"timestamp[{unit}]" for unit in units)])
        seconds = [self.random.randrange(-(2 * 10**9), 4 * 10**9) for _ in range(count)]
        if kind.startswith("date"):
            return Column(name, [one // 86_400 for one in seconds], kind)
        scale = {"s": 1, "m": 10**3, "u": 10**6, "n": 10**9}[kind[len("timestamp[")]]
        return Column(name, [one * scale + self.random.randrange(scale) for one in seconds], kind)

    def _csv_times(self, count: int, family: str) -> list[str]:
        if family == "integers":
            if self.kind("not a time", 0.08):
                return [self.one(["nan", str(self.random.randrange(10**18, 2 * 10**18))]) for _ in range(count)]
            high = self.one([9, 10**6, 2**62])
            return [str(self.random.randrange(high)) for _ in range(count)]
        if family == "numbers":
            return [self._float() for _ in range(count)]
        if self.chance(0.05):
            return [f"2022/09/{self.random.randrange(1, 30):02} 00:20" for _ in range(count)]
        draws = self.one([[self._date], [self._datetime], [self._date, self._datetime]])
        cells = [self.one(draws)() for _ in range(count)]
        if count > FIRST and self.chance(0.3):
            cells[:FIRST] = [self._date() for _ in range(FIRST)]
        if self.chance(0.04) and cells:
            cells[-1] = f"2024-05-31 10:00:00.{self.random.randrange(10**9):09}"
        return cells

    def _date(self) -> str:
        return (date(1970, 1, 1) + timedelta(self.random.randrange(-30_000, 60_000))).isoformat()

    def _datetime(self) -> str:
        text = f"{self._date()}{self.one('T ')}{self.random.randrange(24):02}:{self.random.randrange(60):02}"
        if self.chance(0.8):
            text += f":{self.random.randrange(60):02}"
            if self.chance(0.5):
                text += f".{self.random.randrange(10**6):06}"[: self.random.randrange(2, 8)]
        return text + self.one(["", "", "Z", "+02:00", "-0330", "+00:00", "-11:30"])
