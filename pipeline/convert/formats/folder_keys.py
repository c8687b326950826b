"""Keys in the names of folders, such as ``year=2023/a.parquet``, as columns of the files below."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from headrace.ops.errors import InputError
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.formats.views import View
from headrace.pipeline.convert.parquet_table import ParquetTable
from headrace.pipeline.convert.table import Column, Table

_INTEGER = re.compile(r"-?[0-9]{1,18}")

#: What Hive and Spark write for null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def with_folder_keys(table: Table, paths: Sequence[Path], folder: Path) -> Table:
    """Return a table with the keys of the folders between its files and `folder`; a column of files goes before a key.

    Values are integers where all of a key are, and texts otherwise.

    Raises
    ------
    InputError
        If some files are in a folder with a key and others are not.
    """
    if not isinstance(table, CsvTable | ParquetTable):
        return table
    keys = {path: _keys_of(Path(os.path.relpath(path, folder))) for path in paths}
    names = dict.fromkeys(name for one in keys.values() for name in one if name not in table.columns)
    for name in names:
        odd = next((path for path, one in keys.items() if name not in one), None)
        if odd is not None:
            raise InputError(
                f"convert: expected all files of {table.name} in folders {name}=..., as others are, got {odd}; move "
                "it, or name the files otherwise"
            )
    return (
        FolderKeys(table, {name: {path: one[name] for path, one in keys.items()} for name in names}) if names else table
    )


class FolderKeys(View):
    """A table in files, with columns that are constant in each file.

    Parameters
    ----------
    table
        Of files.
    values
        By column the text of each file, or None for null.
    """

    def __init__(self, table: CsvTable | ParquetTable, values: Mapping[str, Mapping[Path, str | None]]) -> None:
        self._files = table
        self._values: dict[str, Mapping[Path, Any]] = {}
        changed = {}
        for name, texts in values.items():
            there = [one for one in texts.values() if one is not None]
            are_integers = bool(there) and all(map(_INTEGER.fullmatch, there))
            # Of 1 and 01 both stay.
            are_integers = are_integers and len(set(map(int, there))) == len(set(there))
            changed[name] = Column(np.dtype(np.int64 if are_integers else object))
            self._values[name] = texts
            if are_integers:
                self._values[name] = {path: None if text is None else int(text) for path, text in texts.items()}
        super().__init__(table, changed)
        self.identity = f"{self.identity} with {sorted(changed)}"

    def chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield rows; `Table.chunks` documents it."""
        return self._with_keys(self._table.chunks(self._of_files(columns), rows), columns)

    def arrow_chunks(self, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
        """Yield rows; `Table.arrow_chunks` documents it."""
        return self._with_keys(self._table.arrow_chunks(self._of_files(columns), rows), columns)

    def _of_files(self, columns: Sequence[str]) -> list[str]:
        """Return the columns to read: one at least, which tells how many rows there are."""
        return [one for one in columns if one not in self._values] or list(self._files.columns)[:1]

    def _with_keys(self, chunks: Iterator[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        start = 0
        for chunk in chunks:  # each of one file
            size = len(next(iter(chunk.values())))
            yield {name: self._rows(name, start, size) if name in self._values else chunk[name] for name in columns}
            start += size

    def _rows(self, name: str, start: int, size: int) -> NDArray[Any]:
        value = self._values[name][self._files.file_of(start)]
        dtype = self.columns[name].dtype
        if value is None and not self.columns[name].is_text:
            return np.ma.MaskedArray(np.zeros(size, dtype), True)
        return np.full(size, value, dtype)


def _keys_of(path: Path) -> dict[str, str | None]:
    """Return the keys in the names of the folders of a file."""
    parts = [part.partition("=") for part in path.parts[:-1] if "=" in part]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in parts}
