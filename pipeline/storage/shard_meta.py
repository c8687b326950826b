"""What a folder of shards says of itself: ``meta.json``, and the names of its files.

::

    meta.json                       format, sizes, kind of partition, fingerprints, names, dtypes and shapes of rows
    part-P/part.json                which part it is, and fingerprints of its files; see `PartMeta`
    owners.npy                      int32[num_nodes], the owner of each node, of partitions that are tables
    whole/node.NAME.npy             [num_rows, ...], features that every rank reads whole
    whole/edge.NAME.npy             [num_rows, ...], in the order of edge ids
    whole/node_attribute.NAME.npy   [num_nodes, ...], such as times of nodes
    part-P/indptr.npy               int64[num_owned + 1], of the nodes that part P owns, ascending
    part-P/indices.npy              int32 or int64[num_edges of P]
    part-P/edge_ids.npy             int32 or int64[num_edges of P]
    part-P/edge_attribute.NAME.npy  [num_edges of P, ...]
    part-P/node.NAME.npy            [num_owned, ...]

The NAME of a feature of a type is ``TYPE,NAME``, of an edge type ``SOURCE,RELATION,DESTINATION,NAME``; it has a row for
each node of the type, of which a part has those that it owns.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, sampled_digest, whole_number
from headrace.pipeline.data.written_file import written_file
from headrace.pipeline.partition.limits import MOST_PARTS
from headrace.pipeline.storage.opened_files import MOST_JSON_BYTES, parse_json, read_limited
from headrace.pipeline.storage.rows_meta import (
    MOST,
    Counts,
    FeatureMeta,
    RowsMeta,
    count_of,
    dtype_of,
    features_of_types,
    file_of,
    list_of,
    name_of,
    read_counts,
    read_features_of_types,
    text_of,
)

FORMAT = "headrace shards"
VERSION = 2
META, OWNERS = "meta.json", "owners.npy"
KINDS = ("range", "hash", "table")

#: What version 1 does not know; shards that have none of it are still of that version, which older releases read.
SINCE_2 = ("edge_types", "node_attrs", "node_of_types", "edge_of_types")


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
        Nodes of each part; tables and hashes hold it themselves.
    digest
        Fingerprint of the whole graph.
    indices
        The dtype of source ids, by its name in torch.
    edge_attrs
        Edge attributes by name.
    node_types
        Names and counts of node types, in order.
    node, edge
        Features by name, or by type and name; of edges all are whole.
    shared
        Fingerprints of the files that every rank reads, by path; None in shards of before there were any.
    parts
        Fingerprints of each ``part.json``; None in shards of before there were any.
    edge_types
        Names and counts of edge types, in order.
    node_attrs
        Node attributes by name.
    """

    num_nodes: int
    num_edges: int
    num_parts: int
    partition: str
    sizes: tuple[int, ...] | None
    digest: str
    indices: str
    edge_attrs: dict[str, RowsMeta]
    node_types: Counts | None
    node: dict[FeatureName, FeatureMeta]
    edge: dict[FeatureName, FeatureMeta]
    shared: dict[str, str] | None = None
    parts: tuple[str, ...] | None = None
    edge_types: Counts | None = None
    node_attrs: dict[str, RowsMeta] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write ``meta.json``, with a checksum of itself."""
        of_types = {f"{kind}_of_types": features_of_types(getattr(self, kind)) for kind in ("node", "edge")}
        fields = {"format": FORMAT, "version": VERSION, **asdict(self), **of_types}
        for kind in ("node", "edge"):
            fields[kind] = {name: one for name, one in fields[kind].items() if isinstance(name, str)}
        if not any(fields[name] for name in SINCE_2):
            fields = {name: value for name, value in fields.items() if name not in SINCE_2} | {"version": 1}
        write_json(folder / META, {**fields, "checksum": _checksum(fields)})

    @staticmethod
    def read(folder: Path) -> ShardMeta:
        """Read ``meta.json``.

        Fields are checked one by one, then against their checksum. Those that earlier releases of the same version did
        not write yet (`shared`, `parts`, the checksum) may be missing: what they bind is not checked then.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, or it is damaged.
        """
        fields = _fields(folder)
        if type(fields.get("version")) is not int or fields["version"] not in (1, VERSION):
            newer = type(fields.get("version")) is int and fields["version"] > VERSION
            raise InputError(
                f"load_shards: {folder} holds shards of version {fields.get('version')!r}, this headrace reads 1 to "
                f"{VERSION}; " + ("update headrace, or " if newer else "") + "write them again with write_shards"
            )
        try:
            meta = _parsed(fields)
            checksum = fields.pop("checksum", None)
            as_written = checksum is None or checksum == _checksum(fields)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as cause:
            reason = str(cause) if isinstance(cause, InputError) else repr(cause)
            raise InputError(
                f"load_shards: {folder / META} is damaged: {reason[:300]}; copy the shards once more"
            ) from cause
        meta.check(folder)
        if not as_written:
            raise InputError(
                f"load_shards: expected {folder / META} as write_shards wrote it, but its fields do not match its "
                "checksum; copy the shards once more"
            )
        return meta

    def check(self, folder: Path) -> None:
        """Refuse fields that contradict each other.

        Raises
        ------
        InputError
            Which names the folder.
        """
        place = f"load_shards: {folder / META}"
        again = "copy the shards once more"
        if self.partition not in KINDS:
            raise InputError(f"{place}: expected partition to be range, hash or table, got {self.partition!r}; {again}")
        if (self.sizes is None) == (self.partition == "range"):
            raise InputError(f"{place}: expected sizes of parts for ranges, and for them alone; {again}")
        if self.sizes is not None and (sum(self.sizes), len(self.sizes)) != (self.num_nodes, self.num_parts):
            raise InputError(
                f"{place}: expected sizes of {self.num_nodes} nodes in {self.num_parts} parts, got those of "
                f"{sum(self.sizes)} in {len(self.sizes)}; {again}"
            )
        if self.parts is not None and len(self.parts) != self.num_parts:
            raise InputError(
                f"{place}: expected fingerprints of {self.num_parts} parts, got {len(self.parts)}; {again}"
            )
        of_both = (("node", self.node_types, self.num_nodes), ("edge", self.edge_types, self.num_edges))
        for kind, types, num_ids in of_both:
            counts = dict(types or ())
            if types is not None and (len(counts), sum(counts.values())) != (len(types), num_ids):
                raise InputError(f"{place}: expected {kind} types that cover {num_ids} {kind}s, got {counts}; {again}")
        of_nodes = dict(self.node_types or (("node", self.num_nodes),))
        for name, feature in self.node.items():
            num_rows = self.num_nodes if isinstance(name, str) else of_nodes.get(name[0], -1)
            if not feature.whole and feature.num_rows != num_rows:
                what = f"{num_rows} nodes" if num_rows >= 0 else "the nodes of a type that there is not"
                raise InputError(
                    f"{place}: expected a row of node feature {name!r} for each of {what}, got {feature.num_rows}; "
                    f"{again}"
                )
        if not all(feature.whole for feature in self.edge.values()):
            raise InputError(f"{place}: expected edge features to be whole; {again}")


def holds_shards(folder: Path) -> bool:
    """Whether a folder holds shards, of whatever version."""
    try:
        _fields(folder)
    except InputError:
        return False
    return True


def contents_of_shards(folder: Path) -> set[str] | None:
    """Return what `write_shards` wrote to a folder, by paths in it; None if it holds no shards, of whatever version."""
    try:
        fields = _fields(folder)
    except InputError:
        return None
    shared = fields.get("shared")
    found = {META, whole_folder(Path()).name, *(shared if isinstance(shared, dict) else ())}
    for part in folder.glob(part_folder(Path(), "*").name):
        with suppress(InputError, OSError, ValueError, KeyError, TypeError):
            files = parse_json(read_limited(part / PART))["files"]
            found |= {f"{part.name}/{name}" for name in (PART, *files)}
    return found


def part_folder(folder: Path, part: int | str) -> Path:
    """Return the folder of one part."""
    return folder / f"part-{part}"


def whole_folder(folder: Path) -> Path:
    """Return the folder of features that every rank reads whole."""
    return folder / "whole"


def write_json(path: Path, fields: dict[str, Any]) -> None:
    """Write a new file of JSON, which can be read again.

    Raises
    ------
    InputError
        If it is larger than what is read.
    """
    content = (json.dumps(fields, indent=1, allow_nan=False) + "\n").encode()
    if len(content) > MOST_JSON_BYTES:
        raise InputError(
            f"expected {path.name} of at most {MOST_JSON_BYTES:,} bytes, got {len(content):,}; keep long notes in a "
            "file beside it, and shorten names"
        )
    with written_file(path) as write:
        write(content)


def _checksum(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def _parsed(fields: dict[str, Any]) -> ShardMeta:
    """Take what JSON gave."""
    sizes, types, shared, parts = (fields.get(name) for name in ("sizes", "node_types", "shared", "parts"))
    if fields["version"] == 1:
        known = [name for name in SINCE_2 if name in fields]
        if known:
            raise InputError(f"version 1 has no {', '.join(known)}")
        fields = {**fields, "edge_types": None, "node_attrs": {}, "node_of_types": [], "edge_of_types": []}
    indices = dtype_of(fields["indices"])
    if indices not in (torch.int32, torch.int64):
        raise InputError(f"expected indices to be int32 or int64, got {fields['indices']!r}")
    node = {name: FeatureMeta.read(feature) for name, feature in fields["node"].items()}
    edge = {name: FeatureMeta.read(feature) for name, feature in fields["edge"].items()}
    node |= read_features_of_types(fields["node_of_types"])
    edge |= read_features_of_types(fields["edge_of_types"])
    for name in (*fields["edge_attrs"], *fields["node_attrs"], *node, *edge):
        file_of("rows", name)  # a name that makes no file is refused here
    return ShardMeta(
        whole_number(fields["num_nodes"], "num_nodes", 1, InputError, MOST - 1),
        count_of(fields["num_edges"], "num_edges"),
        whole_number(fields["num_parts"], "num_parts", 1, InputError, MOST_PARTS),
        text_of(fields["partition"], "partition"),
        None if sizes is None else tuple(count_of(size, "a size of a part") for size in list_of(sizes)),
        text_of(fields["digest"], "digest"),
        name_of(indices),
        {name: RowsMeta.read(rows) for name, rows in fields["edge_attrs"].items()},
        read_counts(types),
        node,
        edge,
        None if shared is None else {name: text_of(digest, "a fingerprint") for name, digest in shared.items()},
        None if parts is None else tuple(text_of(digest, "a fingerprint") for digest in list_of(parts)),
        read_counts(fields["edge_types"]),
        {name: RowsMeta.read(rows) for name, rows in fields["node_attrs"].items()},
    )


def _fields(folder: Path) -> dict[str, Any]:
    """Read ``meta.json`` as far as its format."""
    try:
        fields = parse_json(read_limited(folder / META))
    except InputError:
        raise
    except OSError as cause:
        raise InputError(
            f"load_shards: expected a folder that write_shards made, but {folder} {_instead(folder, cause)}"
        ) from cause
    except ValueError as cause:
        raise InputError(f"load_shards: {folder / META} is no JSON ({cause}); copy the shards once more") from cause
    if fields.get("format") != FORMAT:
        raise InputError(
            f"load_shards: expected {FORMAT}, but {folder / META} is of something else than {FORMAT}; name a folder of "
            "shards"
        )
    return fields


def _instead(folder: Path, cause: OSError) -> str:
    """Return what there is in place of a folder of shards, and what to name."""
    if not isinstance(cause, FileNotFoundError | NotADirectoryError):
        return f"has no {META} that can be read ({cause.strerror}); name the folder that write_shards was given"
    if not folder.exists():
        return "does not exist; name the folder that write_shards was given"
    if not folder.is_dir():
        folders = f", {folder.parent}" if (folder.parent / META).is_file() else ""
        return f"is a file; name the folder of shards{folders}"
    if (folder.parent / META).is_file():
        return f"has no {META} ({cause.strerror}), the folder above it has one; name that, {folder.parent}"
    if below := sorted(one.parent.name for one in folder.glob(f"*/{META}")):
        return f"has no {META} ({cause.strerror}), these below it have one: {', '.join(below[:5])}; name one of them"
    return f"has no {META} ({cause.strerror}); write shards with write_shards or by headrace partition"


PART = "part.json"


@dataclass(frozen=True)
class PartMeta:
    """Which part a folder holds, and the fingerprints of its files by name."""

    part: int
    files: dict[str, str]

    def write(self, folder: Path) -> str:
        """Write ``part.json``, and return its fingerprint."""
        write_json(folder / PART, {"part": self.part, "files": self.files})
        return _digest((folder / PART).read_bytes())

    @staticmethod
    def read(folder: Path, part: int, digest: str) -> PartMeta:
        """Read ``part.json``.

        Raises
        ------
        InputError
            If there is none, it is of another part or of another write than `digest`, or it is damaged.
        """
        path = folder / PART
        try:
            data = read_limited(path)
            fields = parse_json(data)
            found, files = fields["part"], dict(fields["files"])
        except InputError:
            raise
        except OSError as cause:
            raise InputError(
                f"load_shards: expected {path}, which lists what the folder holds, but it cannot be read "
                f"({cause.strerror}); copy the part once more"
            ) from cause
        except (KeyError, TypeError, ValueError, RecursionError) as cause:
            raise InputError(f"load_shards: {path} is damaged ({cause!r}); copy the part once more") from cause
        if found != part:
            raise InputError(
                f"load_shards: expected part {part} in {folder}, got part {str(found)[:20]}, by {PART}; copy each "
                "part to the folder of its own number"
            )
        if _digest(data) != digest:
            raise InputError(
                f"load_shards: expected {path} to be of the same write_shards as meta.json, got that of another; copy "
                "all files of one write"
            )
        return PartMeta(part, files)


def digest_of_array(name: str, array: Tensor) -> str:
    """Return the fingerprint of a file's array; large ones are sampled."""
    return sampled_digest([(name, array)])


def check_array(path: Path, array: Tensor, digest: str | None) -> None:
    """Refuse an array that is not the one that was written to a file.

    Raises
    ------
    InputError
        If the fingerprint is another, or the file was never written.
    """
    if digest is None:
        raise InputError(f"load_shards: expected no {path.name} here, got {path}; copy all files of one write")
    if digest_of_array(path.name, array) != digest:
        raise InputError(
            f"load_shards: expected in {path} what write_shards wrote there, got something else: it is of another part "
            "or another write, or damaged; copy it once more"
        )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
