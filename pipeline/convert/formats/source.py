"""Which format a file or folder has, told by its files."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from headrace.ops.errors import InputError
from headrace.pipeline.convert.description import Description
from headrace.pipeline.convert.formats.source_files import refuse_foreign

_FORMATS = "headrace.pipeline.convert.formats"

#: What tells a format: a file, or a pattern of files, below a folder; and what reads it.
_TOLD_BY = (
    ("metadata.yaml", "graphbolt", "read_graphbolt"),
    ("meta.yaml", "dgl_csv", "read_dgl"),
    ("processed/*/*.npy", "ogb_lsc", "read_mag240m"),
    ("raw/edge.csv.gz", "ogb", "read_ogb"),
    ("raw/triplet-type-list.csv.gz", "ogb", "read_ogb"),
    ("raw/data.npz", "ogb_binary", "read_ogb_binary"),
    ("*.npy", "arrays", "read_arrays"),
)

#: What a file is read as, by its ending.
_ENDINGS = {
    ".toml": ("described", "read_toml"),
    ".json": ("json_file", "read_json"),
    ".npz": ("arrays", "read_arrays"),
}

#: Endings of tables, which are named by options.
_TABLES = (".parquet", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".npy")


def read_source(path: str | os.PathLike[str]) -> Description:
    """Return the description of a file or folder of any format.

    Raises
    ------
    InputError
        If there is no such file, or it is of no known format, or wrong.
    """
    source = Path(path)
    if not source.exists():
        raise InputError(f"convert: expected a file or folder at {source}, but there is none; look at the path")
    if not source.is_dir():
        if source.name in ("metadata.yaml", "meta.yaml"):
            return read_source(source.parent)
        refuse_foreign(source)
        if source.suffix in _TABLES or "".join(source.suffixes[-2:]) in _TABLES:
            raise InputError(
                f"convert: expected a description or a folder, got the table {source.name}; run `headrace convert "
                f"{source.parent} DATASET --edges {source.name} --src COLUMN --dst COLUMN` if its rows are edges, with "
                "--nodes FILE for those of nodes"
            )
        if source.suffix not in _ENDINGS:
            raise InputError(
                f"convert: expected a file that ends in {', '.join(_ENDINGS)}, or a folder, got {source.name}; name "
                "tables by --edges and --nodes, or describe them in TOML"
            )
        return _reader(*_ENDINGS[source.suffix])(source)
    described = sorted(source.glob("*.toml"))
    if len(described) == 1:
        return _reader(*_ENDINGS[".toml"])(described[0])
    for pattern, module, name in _TOLD_BY:
        if any(source.glob(pattern)):
            return _reader(module, name)(source)
    for file in source.iterdir():
        refuse_foreign(file)
    raise InputError(
        f"convert: expected {', '.join(pattern for pattern, *_ in _TOLD_BY)} or one .toml in {source}, got "
        f"{sorted(one.name for one in source.iterdir())[:10]}; name tables by --edges and --nodes, or describe them"
    )


def _reader(module: str, name: str) -> Callable[[Path], Description]:
    read: Callable[[Path], Description] = getattr(import_module(f"{_FORMATS}.{module}"), name)
    return read
