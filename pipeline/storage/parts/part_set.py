"""What all parts of a graph share, ``parts.json``, and the folders of the parts.

::

    parts.json           what follows, and the checksum of each part's dataset.json
    part-P/dataset.json  the manifest of one part, `headrace.pipeline.storage.dataset.manifest`, and its arrays
    *.npy                arrays that every rank reads whole, which parts.json names

==================  ==================================================================================================
``format``          "headrace parts"
``version``         3; another version is refused by its number
``identity``        SHA-256 of all other fields but ``parts``, in JSON with sorted keys; the record of each part has it
``source``          SHA-256 of the ``dataset.json`` that was cut, or null: parts inside a data set belong to that one
``num_parts``       int; one part for each rank
``num_nodes`` …     ``num_edges``, ``node_types``, ``edge_types``: of the whole graph, as in a data set
``graph_digest``    the fingerprint of the whole graph, which checkpoints hold
``owners``          ``{"kind": "range", "hash" or "table", "digest": "…", "table": null or an array}``: the owner of
                    each node; the sizes of ranges are those of the parts, a table is packed in words of int64, see
                    `headrace.pipeline.partition.part_owners.PackedOwners`
``num_columns``     null where the graph is cut by its nodes; else edges are cut, on a grid of so many columns, and
                    the owners are the masters of nodes: see `hr.EdgePartition`
``node_attrs``      attributes of all nodes by name: the sources of a part's edges are anywhere
``features``        features that every rank reads whole, as in a data set, such as labels
``items`` …         ``ids``, ``notes``: as in a data set
``parts``           ``[{"folder": "part-0", "sha256": "…", "num_own": 5, "num_edges": 12}, …]``
==================  ==================================================================================================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headrace.ops.errors import InputError
from headrace.pipeline.partition.limits import MOST_PARTS
from headrace.pipeline.partition.part_owners import num_words
from headrace.pipeline.storage.dataset import check_manifest
from headrace.pipeline.storage.dataset.contents import MANIFEST, PART_SET, PARTS_FORMAT
from headrace.pipeline.storage.dataset.description import Format
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile, IdFiles, ItemFiles
from headrace.pipeline.storage.dataset.other_folders import instead_of_folder
from headrace.pipeline.storage.json_fields import Counts

#: What to do with parts that do not fit each other.
AGAIN = "copy all files of one cut once more"

_FORMAT = Format(
    PART_SET,
    PARTS_FORMAT,
    3,
    remedy="name a folder that headrace partition made",
    anew="make the parts anew, by headrace partition",
    copy=AGAIN,
    documented="help(hr.Dataset.partition)",
)
_KINDS = ("range", "hash", "table")


@dataclass(frozen=True)
class Owners:
    """Which part owns each node; the digest is `Partition.content_digest`."""

    kind: str
    digest: str
    table: ArrayFile | None


@dataclass(frozen=True)
class PartFile:
    """The folder of a part, the checksum of its ``dataset.json``, and its sizes."""

    folder: str
    sha256: str
    num_own: int
    num_edges: int


@dataclass(frozen=True)
class PartSet:
    """All that ``parts.json`` holds."""

    source: str | None
    num_parts: int
    num_nodes: int
    num_edges: int
    node_types: Counts | None
    edge_types: Counts | None
    graph_digest: str
    owners: Owners
    num_columns: int | None
    node_attrs: Mapping[str, ArrayFile]
    features: tuple[FeatureFile, ...]
    items: Mapping[str, tuple[ItemFiles, ...]]
    ids: tuple[IdFiles, ...]
    notes: Mapping[str, Any]
    identity: str = ""
    parts: tuple[PartFile, ...] = ()

    @property
    def grid(self) -> str | None:
        """How edges are cut: "4 x 1 parts"; None where the graph is cut by its nodes."""
        columns = self.num_columns
        return None if columns is None else f"{self.num_parts // columns} x {columns} parts"

    @property
    def cut_option(self) -> str:
        """What of ``headrace partition`` cuts a graph in the same way."""
        kinds = {None: "", 1: " --cut source", self.num_parts: " --cut destination"}
        return kinds.get(self.num_columns, " --cut grid")

    def identified(self) -> PartSet:
        """Return the set with the identity that its fields have."""
        # As JSON gives it back, where tuples are lists and keys are texts.
        fields = {name: value for name, value in asdict(self).items() if name not in ("identity", "parts")}
        return replace(self, identity=hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest())

    def write(self, folder: Path) -> None:
        """Write ``parts.json``."""
        _FORMAT.write(folder, self)

    @staticmethod
    def read(folder: Path) -> PartSet:
        """Read ``parts.json``, and check each field.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, a field is not as documented or was changed.
        """
        return _FORMAT.read(PartSet, folder, _check, instead_of_folder)[0]


def folder_of_part(part: int) -> str:
    """Return the name of the folder of a part."""
    return f"part-{part}"


def checksum_of_manifest(folder: Path) -> str:
    """Return the SHA-256 of the manifest of a folder."""
    return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()


def _check(parts: PartSet) -> None:
    """Refuse fields that contradict each other.

    Raises
    ------
    InputError, ValueError
        Which names the field; the latter of a dtype that this torch lacks.
    """
    check_manifest.check_files(parts)
    check_manifest.check_types(parts.num_nodes, parts.num_edges, parts.node_types, parts.edge_types)
    if not 1 <= parts.num_parts <= MOST_PARTS:
        raise InputError(f"expected num_parts from 1 to {MOST_PARTS}, got {parts.num_parts}")
    owners = parts.owners
    if owners.kind not in _KINDS or (owners.table is None) == (owners.kind == "table"):
        raise InputError(
            f"expected owners.kind to be range, hash or table, and of tables alone a table, got {owners.kind!r}"
        )
    columns = parts.num_columns
    if columns is not None and (columns < 1 or parts.num_parts % columns):
        raise InputError(f"expected num_columns to divide {parts.num_parts} parts, got {columns}")
    words = num_words(parts.num_nodes, parts.num_parts)
    check_manifest.expect_array("owners.table", owners.table, (words,), (torch.int64,))
    check_manifest.check_attributes("node_attrs", parts.node_attrs, parts.num_nodes)
    all_rows = check_manifest.rows_by_type(parts.num_nodes, parts.num_edges, parts.node_types, parts.edge_types)
    check_manifest.check_features(parts.features, all_rows)
    check_manifest.check_items(parts.items)
    check_manifest.check_ids(parts.ids, all_rows["node"])
    folders = [part.folder for part in parts.parts]
    if folders != [folder_of_part(part) for part in range(parts.num_parts)]:
        raise InputError(f"expected parts to be those of {parts.num_parts} folders, part-0 on, got {folders[:5]}")
    total = sum(part.num_own for part in parts.parts), sum(part.num_edges for part in parts.parts)
    if total != (parts.num_nodes, parts.num_edges):
        raise InputError(
            f"expected parts of {parts.num_nodes} nodes and {parts.num_edges} edges together, got {total[0]} and "
            f"{total[1]}"
        )
    if parts.identity != parts.identified().identity:
        raise InputError(f"expected fields as they were written, got others than those of the identity; {AGAIN}")
