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
``part``            null or missing in a data set; in a part of one, which it is: see
                    `headrace.pipeline.storage.dataset.files.PartRecord`. Sizes and types are those of the whole graph,
                    arrays have the rows of the part's own nodes, ascending, and of their in-edges, or of the edges that
                    it owns where ``part.by_edges`` is there; items, ids, notes
                    and what every rank reads whole are beside the parts, see `headrace.pipeline.storage.parts.part_set`
==================  ==================================================================================================

An array is ``{"file": "graph.indptr.npy", "dtype": "int64", "shape": [11], "sha256": null or "…"}``: a ``.npy`` file
below the folder, a dtype by its name in torch, and the checksum of the whole file as ``sha256sum`` prints it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.pipeline.storage.dataset import check_manifest
from headrace.pipeline.storage.dataset.contents import FORMAT, MANIFEST
from headrace.pipeline.storage.dataset.decode import leaves
from headrace.pipeline.storage.dataset.description import Format
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile, GraphFiles, IdFiles, ItemFiles, PartRecord
from headrace.pipeline.storage.dataset.other_folders import instead_of_folder
from headrace.pipeline.storage.json_fields import Counts

_FORMAT = Format(
    MANIFEST,
    FORMAT,
    1,
    remedy="name a folder that hr.save_dataset or headrace convert made",
    anew="make it anew, by headrace convert or hr.save_dataset",
    copy="copy the data set again",
    documented="help(hr.save_dataset)",
)


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
    part: PartRecord | None = None

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
        _FORMAT.write(folder, self)

    @staticmethod
    def read(folder: Path) -> Manifest:
        """Read ``dataset.json``, and check each field.

        Raises
        ------
        InputError
            If there is none, it is of another format or version, or a field is not as documented.
        """
        return read_manifest(folder)[0]


def read_manifest(folder: Path) -> tuple[Manifest, str]:
    """Read ``dataset.json`` as `Manifest.read` does, and return its SHA-256 as well."""
    return _FORMAT.read(Manifest, folder, _check, instead_of_folder)


def arrays_of(described: Any) -> list[ArrayFile]:
    """Return all arrays of a data set, or of what describes some of its arrays, each once."""
    return list({array.file: array for _, array in leaves(described, ArrayFile)}.values())


def _check(manifest: Manifest) -> None:
    """Refuse fields that contradict each other.

    Raises
    ------
    InputError, ValueError
        Which names the field; the latter of a dtype that this torch lacks.
    """
    check_manifest.check_files(manifest)
    check_manifest.check_types(manifest.num_nodes, manifest.num_edges, manifest.node_types, manifest.edge_types)
    whole = rows = check_manifest.rows_by_type(
        manifest.num_nodes, manifest.num_edges, manifest.node_types, manifest.edge_types
    )
    part = manifest.part
    if part is not None:  # which has rows of its own nodes and edges alone
        types = manifest.node_types, manifest.edge_types
        check_manifest.check_record(part, manifest.num_nodes, manifest.num_edges, *types)
        nodes = zip(list(whole["node"])[1:], part.num_own_of_types or (part.num_own,), strict=True)
        edges = zip(list(whole["edge"])[1:], part.num_edges_of_types or (), strict=True)
        rows = {"node": {None: part.num_own, **dict(nodes)}, "edge": {None: part.num_edges, **dict(edges)}}
    by_edges = None if part is None else part.by_edges
    if part is not None and by_edges is not None:
        check_manifest.check_edge_cut(by_edges, part.num_own, part.num_edges)
    check_manifest.check_graph(manifest.graph, rows["node"][None], rows["edge"][None], by_edges)
    check_manifest.check_features(manifest.features, rows)
    check_manifest.check_items(manifest.items)
    check_manifest.check_ids(manifest.ids, whole["node"])
