"""The table in files, by the names of these."""

from __future__ import annotations

from typing import Any

from headrace.ops import InputError
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.csv_text import unpacked_name
from headrace.pipeline.convert.files import Paths, files_of
from headrace.pipeline.convert.npy_table import NpyTable, NpzTable
from headrace.pipeline.convert.parquet_table import ParquetTable
from headrace.pipeline.convert.table import Table

#: MovieLens has .dat and .data.
_TEXTS = (".csv", ".tsv", ".txt", ".dat", ".data")


def open_table(paths: Paths, **csv_options: Any) -> Table:
    """Open a table: CSV and TSV, packed (.gz, .bz2, .zst) or not, Parquet, ``.npz``, or one column ``.npy``.

    The column of a ``.npy`` file has the name of the file without its ending; `NpyTable` takes several.

    Parameters
    ----------
    paths
        A file, a pattern, a folder, or several; the files of a table have one format.
    csv_options
        Parameters of `CsvTable`.

    Raises
    ------
    InputError
        If there is no such file, or it has none of these endings.
    """
    files = files_of(paths)
    endings = {unpacked_name(one).rpartition(".")[2] for one in files}
    if len(endings) > 1:
        raise InputError(f"convert: expected files of one format, got {sorted(endings)} in {paths!r}")
    ending = f".{endings.pop()}"
    if ending in _TEXTS:
        return CsvTable(files, **csv_options)
    if csv_options:
        raise InputError(f"convert: expected {list(csv_options)} with CSV files alone, got {files[0].name}")
    if ending in (".parquet", ".pq"):
        return ParquetTable(files)
    if ending == ".npz" and len(files) == 1:
        return NpzTable(files[0])
    if ending == ".npy":
        return NpyTable({files[0].stem if len(files) == 1 else files[0].parent.name: files})
    raise InputError(
        f"convert: expected .csv, .tsv, .txt, .dat, .data (.gz, .bz2, .zst), .parquet, .npz or .npy, got {files[0]}"
    )
