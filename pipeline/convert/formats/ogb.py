"""Data sets of OGB as they are downloaded, in ``raw/*.csv.gz``, with and without types; splits in ``split/*/``.

``raw/edge.csv.gz``, ``num-node-list.csv.gz``, ``node-feat``, ``node-label``, ``edge-feat`` and every other ``node_*``
and ``edge_*`` have no header. With types, ``num-node-dict.csv.gz`` names the node types, ``triplet-type-list.csv.gz``
the edge types, and files of a type are in a folder of its name: ``relations/author___writes___paper/edge.csv.gz``.
OGB's reader adds the inverse of each edge of some data sets, behind it; which, the name of the folder tells.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from headrace.ops.errors import InputError
from headrace.ops.warn_user import warn_user
from headrace.pipeline.convert.csv_table import CsvTable
from headrace.pipeline.convert.description import Columns, Description, EdgeTable, Items, NodeTable
from headrace.pipeline.convert.formats.other_rows import WithInverses
from headrace.pipeline.convert.formats.source_files import inside, refuse_pickle
from headrace.pipeline.convert.formats.views import Beside, Cast
from headrace.pipeline.convert.table import Table

#: Names here of the splits of OGB.
SPLITS = {"train": "train", "valid": "val", "test": "test"}

#: What OGB's files are called here; others keep their names without ``node_``, ``edge_``.
_NAMES = {"feat": "x", "label": "y", "year": "time", "time": "time"}

#: Data sets with ``add_inverse_edge`` in OGB's master.csv, by the names of their folders and of their archives.
_WITH_INVERSES = {"ogbn_products", "products", "ogbn_proteins", "proteins", "ogbl_ppa", "ppassoc", "ogbl_collab"}
_WITH_INVERSES |= {"collab", "ogbl_ddi", "ddi"}

#: Data sets whose edges stay as they are in the file.
_AS_IN_FILE = {"ogbn_arxiv", "arxiv", "ogbl_citation", "ogbl_citation2", "citation_v2", "ogbl_wikikg", "ogbl_wikikg2"}
_AS_IN_FILE |= {"wikikg_v2"}

#: The files of a graph without types that have neither nodes' nor edges' columns.
_COUNTS = ("num-node-list.csv.gz", "num-edge-list.csv.gz", "edge.csv.gz")

_ADVICE = (
    "write its ids: for name, ids in torch.load(file, weights_only=False).items(): numpy.savetxt(f'{name}.csv.gz', "
    "ids, fmt='%d'), in the folder of the split, or in one of each type there"
)
_ADVICE_OF_LINKS = (
    "write the pairs: in its folder run `for name in ('train', 'valid', 'test'): numpy.savetxt(f'{name}.csv.gz', "
    "torch.load(f'{name}.pt', weights_only=False)['edge'], fmt='%d', delimiter=',')`"
)


def read_ogb(folder: Path) -> Description:
    """Return the description of a folder of OGB with ``raw/*.csv.gz``.

    Raises
    ------
    InputError
        If a file is missing or malformed, or splits are a pickle.
    """
    raw = folder / "raw"
    if not (raw / "triplet-type-list.csv.gz").exists():
        count = _numbers(raw / "num-node-list.csv.gz", folder)
        _one_graph(count, folder)
        nodes = _nodes("node", int(count[0]), _columns_of(raw, folder, "node"))
        edge, items = _edges(raw, folder, None), list(ogb_splits(folder, None))
        if _has_inverses(folder):
            edge = replace(edge, table=WithInverses(edge.table, "src", "dst"))
        _name_unread(raw)
        return Description([edge], [nodes], items)
    counts = CsvTable(inside(folder, "raw/num-node-dict.csv.gz"))
    rows = list(counts.chunks(list(counts.columns), 8))
    _one_graph(np.concatenate([chunk[name] for chunk in rows for name in list(chunk)[:1]]), folder)
    triples = CsvTable(inside(folder, "raw/triplet-type-list.csv.gz"), names=["head", "relation", "tail"])
    names = sorted(
        (str(head), str(relation), str(tail))
        for chunk in triples.chunks(["head", "relation", "tail"], 1 << 16)
        for head, relation, tail in zip(*chunk.values(), strict=True)
    )
    num_nodes = {name: int(rows[0][name][0]) for name in sorted(counts.columns)}
    of_nodes = []
    for name, number in num_nodes.items():
        folders = [one / name for one in sorted(raw.glob("node[-_]*")) if (one / name).is_dir()]
        files = [file for one in folders for file in sorted(one.glob("*.csv.gz"))]
        of_nodes.append(_nodes(name, number, _named(files, folder, "node")))
    edges = [_edges(raw / "relations" / "___".join(name), folder, name) for name in names]
    return Description(edges, of_nodes, [one for name in num_nodes for one in ogb_splits(folder, name)])


def ogb_splits(folder: Path, of_type: str | None) -> Iterator[Items]:
    """Yield the items of the splits of a folder of OGB, of one node type or of a graph without types.

    Raises
    ------
    InputError
        If there are several splits, or they are a pickle.
    """
    splits = sorted(one for one in (folder / "split").glob("*") if one.is_dir())
    if len(splits) > 1:
        raise InputError(
            f"convert: expected one split in {folder / 'split'}, got {[one.name for one in splits]}; move others away"
        )
    for split in splits:
        place = split if of_type is None else split / of_type
        for pickle, advice in {"split_dict.pt": _ADVICE, **{f"{name}.pt": _ADVICE_OF_LINKS for name in SPLITS}}.items():
            if (split / pickle).exists() and not any(split.glob("**/train.csv.gz")):
                refuse_pickle(str(split / pickle), advice)
        for theirs, ours in SPLITS.items():
            if (place / f"{theirs}.csv.gz").exists():
                (file,) = inside(folder, str((place / f"{theirs}.csv.gz").relative_to(folder)))
                columns = ["src", "dst"] if of_type is None and _width(file) == 2 else ["id"]
                yield Items(ours, CsvTable(file, names=columns), columns if len(columns) > 1 else "id", of_type)


def _has_inverses(folder: Path) -> bool:
    """Return whether OGB's reader adds inverse edges; warn where the name of the folder does not tell."""
    names = [one.name.replace("-", "_").removesuffix("_pyg") for one in (folder.absolute(), folder.resolve())]
    known = [name for name in names if name in _WITH_INVERSES | _AS_IN_FILE]
    if not known:
        warn_user(
            f"convert: {folder}: expected the name of a data set of OGB, such as ogbn_products, got "
            f"{folder.absolute().name!r}: OGB's reader adds the inverse of each edge of some of them, and these edges "
            "are those of the file; rename the folder, or pass undirected=True (--undirected), which adds the reverse "
            "of each edge that has none"
        )
    return bool(known) and known[0] in _WITH_INVERSES


def _name_unread(raw: Path) -> None:
    """Warn of files whose names tell nothing; OGB gives species.csv.gz another name itself."""
    names = [one.name for one in sorted(raw.glob("*.csv.gz")) if not re.match("node[-_]|edge[-_]|species", one.name)]
    unread = [name for name in names if name not in _COUNTS]
    if unread:
        warn_user(
            f"convert: left out of {raw}: {', '.join(unread)}, whose name begins with neither node nor edge; rename "
            "it, as node_NAME.csv.gz, to have it as a feature"
        )


def _nodes(name: str, count: int, columns: list[tuple[str, Table, Columns]]) -> NodeTable:
    """Return the nodes of a type, with the columns that belong to a name."""
    if not columns:
        return NodeTable(name, num_nodes=count)
    features = {what: some for what, _, some in columns if what not in ("y", "time")}
    by_name = {what: some for what, _, some in columns}
    labels = {"y": by_name["y"]} if isinstance(by_name.get("y"), str) else {}
    if "y" in by_name and not labels:  # several tasks: rows of labels
        features["y"] = by_name["y"]
    time = by_name.get("time")
    if time is not None and not isinstance(time, str):
        features["time"], time = time, None
    table = Beside([one for _, one, _ in columns]) if len(columns) > 1 else columns[0][1]
    return NodeTable(name, table, None, count, False, features, {str(k): str(v) for k, v in labels.items()}, time)


def _edges(place: Path, folder: Path, name: tuple[str, str, str] | None) -> EdgeTable:
    file = inside(folder, str((place / "edge.csv.gz").relative_to(folder)))
    ends = CsvTable(file, names=["src", "dst"], types={"src": "int", "dst": "int"})
    columns = _columns_of(place, folder, "edge")
    table = Beside([ends, *(one for _, one, _ in columns)]) if columns else ends
    attributes = {what: some for what, _, some in columns if isinstance(some, str) and what not in ("y", "time")}
    features = {what: some for what, _, some in columns if not isinstance(some, str)}
    plain = {what: some for what, _, some in columns if isinstance(some, str)}
    labels = {"y": plain["y"]} if "y" in plain else {}
    return EdgeTable(table, name, "src", "dst", attributes, features, None, plain.get("time"), labels)


def _columns_of(place: Path, folder: Path, of: str) -> list[tuple[str, Table, Columns]]:
    patterns = [f"{of}[-_]*.csv.gz", *(["species.csv.gz"] if of == "node" else [])]  # OGB renames that of proteins
    files = [one for pattern in patterns for one in sorted(place.glob(pattern)) if one.is_file()]
    return _named(files, folder, of)


def _named(files: list[Path], folder: Path, of: str) -> list[tuple[str, Table, Columns]]:
    """Return tables of files without a header, by what they are called here, and their columns."""
    found: list[tuple[str, Table, Columns]] = []
    for file in files:
        own = file.name.removesuffix(".csv.gz").removeprefix(of).lstrip("-_")
        name = _NAMES.get(own, own)
        (path,) = inside(folder, str(file.relative_to(folder)))
        width = _width(path)
        columns = [f"{name}{place}" if width > 1 else name for place in range(width)]
        table: Table = CsvTable(path, names=columns)
        if name not in ("y", "time") or width > 1:
            floats = [one for one in columns if width > 1 or table.column(one).dtype.kind == "f"]
            table = Cast(table, dict.fromkeys(floats, np.dtype(np.float32)))
        found.append((name, table, columns if width > 1 else name))
    return found


def _width(path: Path) -> int:
    """Return the number of columns of a file without a header."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return len(next(csv.reader(file), ["none"]))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as cause:
        raise InputError(f"convert: expected a table in {path}, but {cause}; copy it again") from cause


def _numbers(path: Path, folder: Path) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the numbers in a file of one column."""
    table = CsvTable(inside(folder, str(path.relative_to(folder))), names=["count"])
    return np.concatenate([np.ma.getdata(chunk["count"]) for chunk in table.chunks(["count"], 8)] or [np.zeros(0)])


def _one_graph(counts: np.ndarray[tuple[int], np.dtype[np.int64]], folder: Path) -> None:
    if len(counts) != 1:
        raise InputError(
            f"convert: expected one graph in {folder}, got {len(counts)}; data sets of many small graphs are not "
            "converted in this version"
        )
