"""Files that a description of a data set names: inside its folder, and none that can run code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.ops.errors import InputError
from headrace.pipeline.convert.files import files_of
from headrace.pipeline.convert.formats.folder_keys import with_folder_keys
from headrace.pipeline.convert.formats.views import Beside
from headrace.pipeline.convert.npy_table import NpyTable
from headrace.pipeline.convert.open_table import open_table
from headrace.pipeline.convert.table import ArrayTable, Table
from headrace.pipeline.storage.array_file import open_array
from headrace.pipeline.storage.opened_files import read_limited

#: Files of Python objects, which would run code when they are read.
PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".dgl", ".joblib")

#: Files that other libraries read, by their ending: their name, and the line of Python that makes a data set of one.
_FOREIGN = {
    ".mtx": (
        "MatrixMarket",
        "import scipy.io, headrace as hr; hr.save_dataset('DATASET', hr.Graph.from_scipy(scipy.io.mmread({!r})))",
    ),
    ".graphml": (
        "GraphML",
        (
            "import networkx, headrace as hr; g = networkx.read_graphml({!r}); hr.save_dataset('DATASET', "
            "hr.Graph.from_scipy(networkx.to_scipy_sparse_array(g)), ids={{'node': list(g)}})"
        ),
    ),
}


def inside(folder: Path, files: str | Sequence[str]) -> list[Path]:
    """Return the files of a table, all below a folder.

    Raises
    ------
    InputError
        If one is elsewhere, or is not there, or holds Python objects.
    """
    found = []
    for text in [files] if isinstance(files, str) else files:
        if not isinstance(text, str) or not text or "\0" in text:
            raise InputError(f"convert: expected names of files, got {text!r}")
        refuse_pickle(text)
        refuse_foreign(folder / text)
        found += files_of(text, folder)
    for path in found:
        refuse_outside(path, folder)
    return found


def refuse_outside(path: Path, folder: Path) -> None:
    """Refuse a file that is not below a folder.

    Raises
    ------
    InputError
        With the folder.
    """
    if "\0" in str(path) or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise InputError(
            f"convert: expected files below {folder}, got {str(path)!r}, which leads elsewhere; copy the file there"
        )


def table_in(folder: Path, files: str | Sequence[str], **csv_options: Any) -> Table:
    """Open a table in files below a folder, with keys in the names of folders as columns; see `open_table`.

    Raises
    ------
    InputError
        If a file is elsewhere, is not there, or is of no known format.
    """
    paths = inside(folder, files)
    return with_folder_keys(open_table(paths, **csv_options), paths, folder)


def array_table(columns: Mapping[str, list[Path] | tuple[list[Path], int]]) -> Table:
    """Open the table of ``.npy`` files, as `NpyTable` has it; arrays in Fortran order are taken as memory maps.

    Raises
    ------
    InputError
        If a file is no array of numbers, or columns differ in length.
    """
    maps = {name: rows for name, given in columns.items() if (rows := _rows_in_fortran_order(given)) is not None}
    others = {name: given for name, given in columns.items() if name not in maps}
    tables: list[Table] = [NpyTable(others)] if others or not maps else []
    if maps:
        tables.append(ArrayTable(str(Path(next(iter(maps.values())).filename)), maps))
    return Beside(tables) if len(tables) > 1 else tables[0]


def _rows_in_fortran_order(given: list[Path] | tuple[list[Path], int]) -> Any:
    """Return the rows of an array in Fortran order, or one side of its pairs; None of any other one."""
    files, place = given if isinstance(given, tuple) else (given, None)
    if len(files) != 1:
        return None
    array = open_array(files[0], memory_map=True, is_ours=False)
    if array.ndim < 2 or array.flags.c_contiguous or not array.dtype.isnative:
        return None
    if place is None:
        return array
    if array.ndim > 2 or (array.shape[0] != 2 and place >= array.shape[1]):
        return None
    return array[place] if array.shape[0] == 2 else array[:, place]


def refuse_pickle(name: str, instead: str = "write its arrays by numpy.save, and name the .npy files") -> None:
    """Refuse a file of Python objects.

    Raises
    ------
    InputError
        With what to write instead.
    """
    if name.lower().endswith(PICKLES):
        raise holds_objects(name, instead)


def refuse_foreign(path: Path) -> None:
    """Refuse a file that another library reads.

    Raises
    ------
    InputError
        With the line of Python that makes a data set of it.
    """
    for ending, (name, line) in _FOREIGN.items():
        if path.name.lower().removesuffix(".gz").endswith(ending):
            raise InputError(
                f"convert: expected tables, arrays or a folder of a known format, got {path.name}, in {name}, which "
                f"headrace does not read; run `{line.format(str(path))}`"
            )


def holds_objects(name: str, instead: str) -> InputError:
    """Return the error for a file of Python objects, with what to write instead."""
    return InputError(
        f"convert: expected files of numbers or texts, got {name}, which holds Python objects: they are not unpickled, "
        f"as that could run code; {instead}"
    )


def text_of(path: Path) -> str:
    """Return a text of at most some megabytes.

    Raises
    ------
    InputError
        If it cannot be read, or is no text.
    """
    try:
        return read_limited(path).decode("utf-8-sig")  # editors of Windows begin files with a byte order mark
    except OSError as cause:
        raise InputError(f"convert: {path} cannot be read ({cause.strerror}); look at the path") from cause
    except ValueError as cause:  # too large, or not in UTF-8
        raise InputError(f"convert: expected a text in UTF-8 in {path}, but {cause}") from cause
