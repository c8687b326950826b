"""The manifest of a data set, ``dataset.json``: what the folder holds, in JSON.

==================  ==================================================================================================
``format``          "headrace data set"
``version``         1; another version is refused by its number
``num_nodes``       int, at least 1
``num_edges``       int
``node_types``      null, or ``[["user", 10], …]``: names and counts, in the order of the ids
``edge_types``      null, or ``[[["user", "buys", "item"], 20], …]``
``graph``           ``indptr`` int64[num_nodes + 1] and ``indices`` int32 or int64[num_edges], the in-neighbours of each
                    node; or null: ``edge_ids`` and ``node_ids``, as in `hr.Graph`; ``edge_attrs`` and ``node_attrs``,
                    arrays by name, edges in CSC order
``features``        ``[{"of": "node" or "edge", "type": null or a type, "name": "x", "rows": array}, …]``; of codes with
                    ``"quantization": {"scale": …, "zero_point": …}``, numbers or lists of the shape of a row
``items``           ``{"train": [{"type": null or a type, "ids": array, "labels": null or array, "times": null or
                    array}, …]}``
``ids``             ``[{"type": "node" or a node type, "values": array, "starts": null or array, "order": null or
                    array}, …]``: the users' own ids, see `headrace.pipeline.storage.dataset.id_map`
``notes``           an object, not read: sources, options and counts of a conversion
==================  ==================================================================================================

An array is ``{"file": "graph.indptr.npy", "dtype": "int64", "shape": [11], "sha256": null or "…"}``: a ``.npy`` file
below the folder, a dtype by its name in torch, and the checksum of the whole file as ``sha256sum`` prints it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import torch
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.data.types import TypeName
from headrace.pipeline.storage.dataset.decode import decode, leaves
from headrace.pipeline.storage.opened_files import parse_json, read_limited
from headrace.pipeline.storage.rows_meta import Counts, dtype_of, read_quantization
from headrace.pipeline.storage.shard_meta import contents_of_shards, write_json

MANIFEST, FORMAT, VERSION = "dataset.json", "headrace data set", 1


#: Of a data set, the folder of its shards.
PARTS = "parts"


@dataclass(frozen=True)
class ArrayFile:
    """Where an array is, and what it must be."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str | None = None

    @property
    def torch_dtype(self) -> torch_dtype:
        """The dtype."""
        return dtype_of(self.dtype)


@dataclass(frozen=True)
class FeatureFile:
    """A feature of nodes or of edges, of all or of one type."""

    of: str
    type: TypeName | None
    name: str
    rows: ArrayFile
    quantization: dict[str, Any] | None = None


@dataclass(frozen=True)
class ItemFiles:
    """Items of one type, or of a graph without types."""

    type: TypeName | None
    ids: ArrayFile
    labels: ArrayFile | None
    times: ArrayFile | None


@dataclass(frozen=True)
class IdFiles:
    """The users' ids of the nodes of a type: integers, or texts as bytes with the start of each."""

    type: str
    values: ArrayFile
    starts: ArrayFile | None
    order: ArrayFile | None


@dataclass(frozen=True)
class GraphFiles:
    """The arrays of a graph."""

    indptr: ArrayFile
    indices: ArrayFile
    edge_ids: ArrayFile | None
    node_ids: ArrayFile | None
    edge_attrs: Mapping[str, ArrayFile]
    node_attrs: Mapping[str, ArrayFile]


@dataclass(frozen=True)
class Manifest:
    """All that ``dataset.json`` holds."""

    num_nodes: int
    num_edges: int
    node_types: Counts | None
    edge_types: Counts | None
    graph: GraphFiles
    features: tuple[FeatureFile, ...]
    items: Mapping[str, tuple[ItemFiles, ...]]
    ids: tuple[IdFiles, ...]
    notes: Mapping[str, Any]

    @property
    def numbering(self) -> str | None:
        """What tells by which ids of the users the nodes are numbered: `Dataset.numbering` documents it."""
        ids: dict[str, list[str | None]] = {str(name): [] for name, _ in self.node_types or (("node", 0),)}
        ids |= {one.type: [file.sha256 for file in (one.values, one.starts) if file is not None] for one in self.ids}
        if any(None in sums for sums in ids.values()):
            return None
        return hashlib.sha256(repr(sorted(ids.items())).encode()).hexdigest()[:16]

    def write(self, folder: Path) -> None:
        """Write ``dataset.json``."""
        write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **asdict(self)})

    @staticmethod
    def read(folder: Path) -> Manifest:
        """Read ``dataset.json``, and check each field.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, or a field is not as documented.
        """
        path = folder / MANIFEST
        try:
            fields = parse_json(read_limited(path))
        except OSError as cause:
            from headrace.pipeline.storage.dataset.dataset_words import instead_of_folder

            is_absent = isinstance(cause, FileNotFoundError | NotADirectoryError)
            remedy = (instead_of_folder(folder) if is_absent else None) or (
                "name a folder that hr.save_dataset or headrace convert made"
            )
            raise InputError(
                f"open_dataset: expected a folder with {MANIFEST}, but {path} cannot be read ({cause.strerror}); "
                f"{remedy}"
            ) from None
        except ValueError as cause:
            raise InputError(f"open_dataset: expected JSON in {path}, but {cause}; copy the data set again") from cause
        if fields.get("format") != FORMAT:
            raise InputError(
                f"open_dataset: expected the format {FORMAT!r} in {path}, got {str(fields.get('format'))[:40]!r}; name "
                "a folder that hr.save_dataset or headrace convert made"
            )
        if fields.get("version") != VERSION or isinstance(fields.get("version"), bool):
            raise InputError(
                f"open_dataset: expected version {VERSION} in {path}, got {str(fields.get('version'))[:40]}; make "
                "it anew, by headrace convert or hr.save_dataset, or open it with the headrace that wrote it"
            )
        try:
            del fields["format"], fields["version"]
            manifest = decode(Manifest, fields)
            _check(manifest)
        except (InputError, ValueError) as cause:
            raise InputError(f"open_dataset: {path}: {cause}; see help(hr.save_dataset) for the format") from cause
        return manifest


def parts_inside(folder: Path) -> tuple[str, ...]:
    """Return the parts that ``headrace partition`` has put into a data set, which go when it is replaced."""
    try:
        inside = [one for one in (folder / PARTS).iterdir() if one.is_dir() and not one.name.startswith(".")]
        return tuple(sorted(f"{PARTS}/{one.name}" for one in inside))
    except OSError:
        return ()


def contents_of_dataset(folder: Path) -> set[str] | None:
    """Return what headrace wrote to a data set, its parts too, by paths in it; None of a folder without one.

    Of whatever version it is: each file of one is named by a field ``file``.
    """
    try:
        fields = parse_json(read_limited(folder / MANIFEST))
    except (InputError, OSError, ValueError):
        return None
    if fields.get("format") != FORMAT:
        return None
    found = {MANIFEST, PARTS, *_files_named({name: one for name, one in fields.items() if name != "notes"})}
    for one in parts_inside(folder):
        found |= {f"{one}/{name}" for name in contents_of_shards(folder / one) or ()}
    return found


def _files_named(value: Any) -> Iterator[str]:
    """Yield the files that fields of JSON name."""
    if isinstance(value, dict):
        if isinstance(value.get("file"), str):
            yield value["file"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _files_named(one)


def holds_dataset(folder: Path) -> bool:
    """Whether a folder holds a data set, of any version."""
    try:
        return parse_json(read_limited(folder / MANIFEST)).get("format") == FORMAT
    except (InputError, OSError, ValueError):
        return False


def arrays_of(manifest: Manifest) -> list[ArrayFile]:
    """Return all arrays of a data set, each once."""
    return list({array.file: array for _, array in leaves(manifest, ArrayFile)}.values())


_IDS = (torch.int32, torch.int64)


def _check(manifest: Manifest) -> None:
    """Refuse fields that contradict each other.

    Raises
    ------
    InputError, ValueError
        Which names the field; the latter of a dtype that this torch lacks.
    """
    num_nodes, num_edges, graph = manifest.num_nodes, manifest.num_edges, manifest.graph
    if num_nodes < 1:
        raise InputError(f"expected num_nodes of at least 1, got {num_nodes}")
    for path, array in leaves(manifest, ArrayFile):
        _check_file(path, array)
    _check_types("node_types", manifest.node_types, num_nodes, str)
    _check_types("edge_types", manifest.edge_types, num_edges, (str, tuple))
    _expect("graph.indptr", graph.indptr, (num_nodes + 1,), (torch.int64,))
    _expect("graph.indices", graph.indices, (num_edges,), _IDS)
    _expect("graph.edge_ids", graph.edge_ids, (num_edges,), _IDS)
    _expect("graph.node_ids", graph.node_ids, (num_nodes,), (torch.int64,))
    for what, attributes, num_rows in (
        ("edge_attrs", graph.edge_attrs, num_edges),
        ("node_attrs", graph.node_attrs, num_nodes),
    ):
        for name, array in attributes.items():
            _expect_rows(f"graph.{what}.{name}", array, num_rows)
    of_nodes: dict[Any, int] = dict(manifest.node_types or (("node", num_nodes),))
    of_edges: dict[Any, int] = dict(manifest.edge_types or ())
    rows_of_types = {"node": {None: num_nodes, **of_nodes}, "edge": {None: num_edges, **of_edges}}
    _check_features(manifest.features, rows_of_types)
    for name, runs in manifest.items.items():
        for place, run in enumerate(runs):
            if len(run.ids.shape) not in (1, 2):
                raise InputError(f"expected items of one or two dimensions, got {list(run.ids.shape)}")
            _expect(f"items.{name}[{place}].ids", run.ids, run.ids.shape, _IDS)
            for extra in ("labels", "times"):
                _expect_rows(f"items.{name}[{place}].{extra}", getattr(run, extra), run.ids.shape[0])
    for ids in manifest.ids:
        if ids.type not in of_nodes:
            raise InputError(f"expected ids of a node type, one of {list(of_nodes)}, got {ids.type!r}")
        count = of_nodes[ids.type]
        _expect(f"ids of {ids.type!r}", ids.starts, (count + 1,), (torch.int64,))
        kind, shape = (torch.int64, (count,)) if ids.starts is None else (torch.uint8, ids.values.shape)
        _expect(f"ids of {ids.type!r}", ids.values, shape, (kind,))
        _expect(f"order of ids of {ids.type!r}", ids.order, (count,), (torch.int64,))


def _check_file(path: str, array: ArrayFile) -> None:
    file = PurePosixPath(array.file)
    is_odd = file.is_absolute() or ".." in file.parts or not file.parts or "\\" in array.file or "\0" in array.file
    if is_odd or file.suffix != ".npy":
        raise InputError(f"expected {path} in a .npy file below the folder, got {array.file[:200]!r}")
    if array.sha256 is not None and len(array.sha256) != 64:
        raise InputError(f"expected {path}.sha256 to be 64 hexadecimal digits or null, got {array.sha256[:80]!r}")
    array.torch_dtype  # noqa: B018 - an unknown one is refused here


def _check_types(path: str, counts: Counts | None, num_ids: int, kinds: type | tuple[type, ...]) -> None:
    if counts is None:
        return
    names = [name for name, _ in counts]
    if len(set(names)) < len(names) or not all(isinstance(name, kinds) for name in names):
        raise InputError(f"expected different names of types as {path}, got {names[:5]}")
    if (total := sum(count for _, count in counts)) != num_ids:
        raise InputError(f"expected {path} of {num_ids} ids, got {total}")


def _check_features(features: tuple[FeatureFile, ...], num_rows: Mapping[str, Mapping[Any, int]]) -> None:
    for feature in features:
        if feature.of not in num_rows or feature.type not in num_rows[feature.of]:
            raise InputError(
                f"expected feature {feature.name!r} to be of nodes or edges of a type of the graph, got "
                f"{feature.of!r}, {feature.type!r}"
            )
        _expect_rows(f"feature {feature.name!r}", feature.rows, num_rows[feature.of][feature.type])
        read_quantization(feature.quantization)
    names = [(one.of, one.type, one.name) for one in features]
    if len(set(names)) < len(names):
        raise InputError("expected features of different names, got one twice")


def _expect(path: str, array: ArrayFile | None, shape: tuple[int, ...], dtypes: tuple[torch_dtype, ...]) -> None:
    if array is None:
        return
    if array.torch_dtype not in dtypes:
        raise InputError(f"expected {path} of {' or '.join(map(str, dtypes))}, got {array.dtype}")
    if array.shape != shape:
        raise InputError(f"expected {path} of {list(shape)}, got {list(array.shape)}")


def _expect_rows(path: str, array: ArrayFile | None, num_rows: int) -> None:
    if array is not None and array.shape[:1] != (num_rows,):
        raise InputError(f"expected {path} of {num_rows} rows, got {list(array.shape)}")
