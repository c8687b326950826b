"""What a folder of shards says of itself: ``meta.json``, and the names of its files.

::

    meta.json                       format, sizes, kind of partition, fingerprints, names, dtypes and shapes of rows
    owners.npy                      int32[num_nodes], the owner of each vertex, of partitions that are tables
    whole/node.NAME.npy             [num_rows, ...], features that every rank reads whole
    whole/edge.NAME.npy             [num_rows, ...], in the order of edge ids
    part-P/indptr.npy               int64[num_owned + 1], of the vertices that part P owns, ascending
    part-P/indices.npy              int32 or int64[num_edges of P]
    part-P/edge_ids.npy             int32 or int64[num_edges of P]
    part-P/edge_attribute.NAME.npy  [num_edges of P, ...]
    part-P/node.NAME.npy            [num_owned, ...]
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.pipeline.features import FeatureSource

FORMAT = "headrace shards"
VERSION = 1
META, OWNERS = "meta.json", "owners.npy"


@dataclass(frozen=True)
class RowsMeta:
    """The dtype, by its name in torch, and shape of one row of an array."""

    dtype: str
    shape: tuple[int, ...]

    @staticmethod
    def of(rows: Tensor | FeatureSource) -> RowsMeta:
        """Describe the rows of an array."""
        return RowsMeta(_name(rows.dtype), tuple(map(int, rows.shape[1:])))

    @staticmethod
    def read(fields: dict[str, Any]) -> RowsMeta:
        """Take what JSON gave."""
        dtype_of(fields["dtype"])
        return RowsMeta(fields["dtype"], tuple(map(int, fields["shape"])))

    @property
    def torch_dtype(self) -> torch_dtype:
        """The dtype."""
        return dtype_of(self.dtype)


@dataclass(frozen=True)
class FeatureMeta:
    """A feature: its rows, how many of them there are, their fingerprint, and whether every rank reads all of them."""

    rows: RowsMeta
    num_rows: int
    whole: bool
    digest: str

    @staticmethod
    def of(source: FeatureSource, *, whole: bool) -> FeatureMeta:
        """Describe a feature."""
        return FeatureMeta(RowsMeta.of(source), int(source.num_rows), whole, source.content_digest())

    @staticmethod
    def read(fields: dict[str, Any]) -> FeatureMeta:
        """Take what JSON gave."""
        rows = RowsMeta.read(fields["rows"])
        return FeatureMeta(rows, int(fields["num_rows"]), bool(fields["whole"]), str(fields["digest"]))


@dataclass(frozen=True)
class ShardMeta:
    """What all shards of a graph have in common.

    Attributes
    ----------
    num_nodes, num_edges, num_parts
        Of the whole graph.
    partition
        "range", "hash" or "table".
    sizes
        Vertices of each part; tables and hashes tell of themselves.
    digest
        Fingerprint of the whole graph.
    indices
        The dtype of source ids, by its name in torch.
    edge_attrs
        Edge attributes by name.
    node_types
        Names and counts of node types, in order.
    node, edge
        Features by name; of edges all are whole.
    """

    num_nodes: int
    num_edges: int
    num_parts: int
    partition: str
    sizes: tuple[int, ...] | None
    digest: str
    indices: str
    edge_attrs: dict[str, RowsMeta]
    node_types: tuple[tuple[str, int], ...] | None
    node: dict[str, FeatureMeta]
    edge: dict[str, FeatureMeta]

    def write(self, folder: Path) -> None:
        """Write ``meta.json``."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1)
        with (folder / META).open("x", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def read(folder: Path) -> ShardMeta:
        """Read ``meta.json``.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, or it is damaged.
        """
        fields = _fields(folder)
        if fields.get("version") != VERSION:
            raise InputError(
                f"load_shards: {folder} holds shards of version {fields.get('version')!r}, this headrace reads version "
                f"{VERSION}; write them again with write_shards"
            )
        try:
            return ShardMeta(
                int(fields["num_nodes"]),
                int(fields["num_edges"]),
                int(fields["num_parts"]),
                str(fields["partition"]),
                None if fields["sizes"] is None else tuple(map(int, fields["sizes"])),
                str(fields["digest"]),
                _name(dtype_of(fields["indices"])),
                {name: RowsMeta.read(rows) for name, rows in fields["edge_attrs"].items()},
                None if fields["node_types"] is None else tuple((str(k), int(n)) for k, n in fields["node_types"]),
                {name: FeatureMeta.read(feature) for name, feature in fields["node"].items()},
                {name: FeatureMeta.read(feature) for name, feature in fields["edge"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as cause:
            raise InputError(
                f"load_shards: {folder / META} is damaged ({cause!r}); copy the shards once more"
            ) from cause


def holds_shards(folder: Path) -> bool:
    """Whether a folder holds shards, of whatever version."""
    try:
        _fields(folder)
    except InputError:
        return False
    return True


def part_folder(folder: Path, part: int) -> Path:
    """Return the folder of one part."""
    return folder / f"part-{part}"


def whole_folder(folder: Path) -> Path:
    """Return the folder of features that every rank reads whole."""
    return folder / "whole"


def file_of(kind: str, name: str) -> str:
    """Return the file of a feature ("node", "edge") or an edge attribute, whatever characters its name has."""
    return f"{kind}.{quote(name, safe='')}.npy"


def dtype_of(name: str) -> torch_dtype:
    """Return the dtype that torch calls by a name.

    Raises
    ------
    ValueError
        If this torch has none.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch_dtype):
        raise ValueError(f"torch {torch.__version__} has no dtype {name!r}")  # noqa: TRY004 - of a file, not of a caller
    return dtype


def _name(dtype: torch_dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _fields(folder: Path) -> dict[str, Any]:
    """Read ``meta.json`` as far as its format."""
    try:
        fields = json.loads((folder / META).read_text(encoding="utf-8"))
    except OSError as cause:
        raise InputError(
            f"load_shards: expected a folder that write_shards made, but {folder} has no {META} ({cause.strerror})"
        ) from cause
    except ValueError as cause:
        raise InputError(f"load_shards: {folder / META} is no JSON ({cause}); copy the shards once more") from cause
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise InputError(f"load_shards: {folder / META} is of something else than {FORMAT}; name a folder of shards")
    return fields
