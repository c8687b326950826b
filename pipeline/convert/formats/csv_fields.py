"""Fields of TOML that tell how files of text are read, and what they seem to be told wrong: a header among the rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.convert.csv_text import CsvText, unpacked_name
from headrace.pipeline.convert.table import is_number

#: Parameters of `CsvTable`, which are fields of tables by the same names.
FIELDS = ("separator", "names", "types", "comment", "skip", "null_values", "escape")

#: Rows of a file that are looked at for a header.
_LOOKED_AT = 100


def csv_options(fields: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the parameters of `CsvTable` that fields of a table have, alone those that are given.

    Raises
    ------
    InputError
        If one is of another kind.
    """
    given = {name: fields[name] for name in FIELDS if name in fields}
    separator = given.get("separator", ",")
    if not isinstance(separator, str) or not separator or set(separator) & set('"\r\n'):
        raise InputError(
            f"{what}: expected separator to be a text without quotes and line ends, got {separator!r}; correct it"
        )
    for name in ("comment", "escape"):
        letter = given.get(name, "#")
        if not isinstance(letter, str) or len(letter) != 1:
            raise InputError(f"{what}: expected {name} to be one character, got {letter!r}; correct it")
    skip = given.get("skip", 0)
    if type(skip) is not int or skip < 0:
        raise InputError(f"{what}: expected skip to be a number of lines, got {skip!r}; correct it")
    if not isinstance(given.get("types", {}), Mapping):
        raise InputError(f"{what}: expected types by column, got {given['types']!r}; write types = {{ NAME = TYPE }}")
    for name in ("names", "null_values"):
        if name in given:
            given[name] = texts_of(given[name], f"{what}: {name}")
    if "types" in given:
        given["types"] = {name: tuple(one) if isinstance(one, list) else one for name, one in given["types"].items()}
    return given


def texts_of(given: Any, what: str) -> list[str]:
    """Return a text, or a list of texts, as a list.

    Raises
    ------
    InputError
        If it is something else.
    """
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        raise InputError(f"{what}: expected a text, or a list of texts, got {given!r}")
    return list(texts)


def refuse_headers(paths: Sequence[Path], options: Mapping[str, Any]) -> None:
    """Refuse files with a header, or a comment, as their first row, where columns are given by ``names``.

    A header has the names themselves, or a text above a column of numbers that was not given as one of texts.

    Raises
    ------
    InputError
        With the row, and what to pass.
    """
    names, types = options["names"], options.get("types", {})
    numeric = [place for place, name in enumerate(names) if types.get(name) != "text"]
    for path in paths:
        try:
            line, (first, *others) = _first_rows(path, options)
        except (ValueError, OSError, IndexError, csv.Error):
            continue  # an empty file, or damage, which its reader names
        null = ["", *options.get("null_values", ())]
        is_header = [one.strip().lower() for one in first] == [name.lower() for name in names] or any(
            _is_above_numbers(place, first, others, null) for place in numeric
        )
        where = f"convert: {path}, row {line}: expected a row of {names}, got"
        if first[0].startswith("#") and (is_header or len(first) != len(names)):
            text = options.get("separator", ",").join(first)
            raise InputError(f'{where} the comment {text[:40]!r}; pass comment = "#" to leave such lines out')
        if is_header:
            raise InputError(
                f"{where} the header {first}; leave names out, pass skip = {line}, or, of a "
                'row that is none, types = { COLUMN = "text" }'
            )


def _first_rows(path: Path, options: Mapping[str, Any]) -> tuple[int, list[list[str]]]:
    """Return the first rows of a file, without lines to skip and comments, and the line of the first of them."""
    separator = options.get("separator") or ("\t" if unpacked_name(path).endswith(".tsv") else ",")
    skip, comment = options.get("skip", 0), options.get("comment")
    with closing(CsvText(path, ",", None)) as stream:
        file = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", errors="replace", newline="")
        kept = ((number, line) for number, line in enumerate(file, 1) if number > skip and line.strip())
        rows = ((number, line) for number, line in kept if not (comment and line.startswith(comment)))
        numbered = list(islice(rows, _LOOKED_AT))
    lines = [line for _, line in numbered]
    if len(separator) > 1:
        return numbered[0][0], [line.rstrip("\r\n").split(separator) for line in lines]
    return numbered[0][0], list(csv.reader(lines, delimiter=separator, escapechar=options.get("escape")))


def _is_above_numbers(
    place: int, first: Sequence[str], others: Sequence[Sequence[str]], null_values: Sequence[str]
) -> bool:
    values = [row[place] for row in others if len(row) > place and row[place] not in null_values]
    return (
        len(first) > place
        and first[place] not in null_values
        and not is_number(first[place])
        and bool(values)
        and all(map(is_number, values))
    )
