"""Data sets: what is in a folder, or in one part of it, as Python has it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.ops.errors import InputError
from headrace.pipeline.data import FeatureName, Graph, Items
from headrace.pipeline.data.registry import registered
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.dataset.dataset_words import missing
from headrace.pipeline.storage.dataset.files import ArrayFile
from headrace.pipeline.storage.dataset.folder_writer import num_bytes, sha256_of
from headrace.pipeline.storage.dataset.id_map import IdMap
from headrace.pipeline.storage.dataset.manifest import Manifest, arrays_of
from headrace.pipeline.storage.features import FeatureStore


@dataclass(frozen=True)
class Part:
    """Which part of a data set was opened.

    Parameters
    ----------
    number
        The number of the part, which is that of its rank.
    partition
        The owner of each node of the whole graph.
    identity
        A fingerprint of the cut: the same for all parts that were written together.
    """

    number: int
    partition: Partition
    identity: str

    @property
    def num_parts(self) -> int:
        """How many parts there are."""
        return self.partition.num_parts


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set on disk, or one part of it; `open_dataset` opens one.

    Parameters
    ----------
    path
        The folder.
    graph
        The graph, in memory maps. Its arrays are checked when they are first read. Of a part these are the in-edges of
        the nodes that it owns, as `Graph.shard` returns them; where the graph was cut by edges, those that it owns:
        ``nodes``, ``indptr`` and ``indices`` by destination, ``edge_ids``, ``positions`` and ``offsets`` in the whole
        graph, and ``nodes_at_hand`` with their ``in_degrees`` and ``out_degrees``.
    store
        The features, in memory maps. Of a part they are `ShardedFeature`, but for those of nodes that every rank reads
        whole.
    items
        Items by name, such as ``items["train"]``, for `ItemSampler`.
    ids
        By node type ("node" in a graph without types) the users' own ids: ``ids["node"].external(ours)`` and
        ``ids["node"].ours(external)``. Of types without ids of their own these are the numbers of nodes.
    notes
        Notes of the writer, such as the sources and counts of a conversion.
    part
        Of a part: its number and the owner of each node; None of a data set.
    checksum
        SHA-256 of ``dataset.json`` as it was read, of a part of its own one.
    """

    path: Path
    graph: Graph
    store: FeatureStore
    items: Mapping[str, Items]
    ids: Mapping[str, IdMap]
    notes: Mapping[str, Any]
    manifest: Manifest
    part: Part | None = None
    checksum: str = ""

    @property
    def numbering(self) -> str | None:
        """A short text that tells which node has which of the users' own ids: another one where any moved or was added.

        Items and configs are refused for a graph of another one, and of graphs made of it by `Graph.undirected`,
        `Graph.with_reverse` and `Graph.with_self_loops`. None where the manifest has no checksums.
        """
        return self.manifest.numbering

    def partition(
        self,
        partition: Partition | EdgePartition,
        folder: str | os.PathLike[str],
        *,
        features: Collection[FeatureName] | None = None,
        whole: str | Collection[FeatureName] | None = None,
        overwrite: bool = False,
        progress: bool = True,
    ) -> None:
        """Write the parts of the data set to a folder, one for each rank: `open_dataset` opens the rank's own.

        Each part is a data-set folder: the in-edges of the nodes that it owns, or its share of the edges, with their
        attributes and ids, and the rows of features of these nodes and edges. Beside the parts are data that every rank
        reads whole: features of one number per node, attributes of nodes, items, ids and notes. The format is in
        `headrace.pipeline.storage.parts.part_set`. One process writes all parts, in pieces, so data sets larger than
        memory can be cut. The folder appears when it is complete: a run that is killed leaves it as it was, and a
        hidden draft beside it, which the next run with the same folder removes.

        Parameters
        ----------
        partition
            The owner of each node; or an `hr.EdgePartition` of ``data.graph``, by which each part has the edges that it
            owns, where they are in the whole graph, and the degrees of the nodes at their ends. Plans do not read such
            parts yet.
        folder
            The folder to make, such as ``films/parts/hash-4``; parts inside a data set go when that is replaced.
        features
            The features to take, by name, or by type and name: all by default.
        whole
            Features that every rank reads whole: "y", or a list of names such as ``[("paper", "y")]``. By default
            those of nodes with one number per row. Labels of seeds that a rank does not own must be whole.
        overwrite
            Replace parts at `folder`, at once when the new ones are complete; anything else that is there stays, and
            is an error with its name.
        progress
            Show a bar of bytes written.

        Raises
        ------
        InputError
            If this is a part already, the partition has another number of nodes, or there is no such feature.
            If `folder` exists and may not be replaced, or another run writes it now.
        OSError
            If the disk is full, or `folder` cannot be written; for a full disk with the bytes that are needed.

        Warns
        -----
        UserWarning
            If there are drafts of runs that were killed.

        Examples
        --------
        >>> import tempfile
        >>> import headrace as hr, torch
        >>> folder = tempfile.mkdtemp() + "/cycle"
        >>> store = hr.FeatureStore(node={"x": torch.eye(3)})
        >>> hr.save_dataset(folder, hr.Graph.from_coo([0, 1, 2], [1, 2, 0]), store, progress=False)
        >>> hr.open_dataset(folder).partition(hr.Partition.range(3, 2), folder + "/parts/two", progress=False)
        >>> part = hr.open_dataset(folder + "/parts/two", rank=1)
        >>> part.part.partition.owned(1).tolist(), part.graph.num_edges, part.graph.num_local_edges
        ([1, 2], 3, 2)
        """
        options = {"features": features, "whole": whole, "overwrite": overwrite, "progress": progress}
        registered("partition_dataset")(self, partition, folder, **options)

    def info(self) -> str:
        """Return a text with the types, counts, dtypes and bytes of the data set."""
        manifest = self.manifest
        lines = [f"{self.path}: {manifest.num_nodes:,} nodes, {manifest.num_edges:,} edges"]
        if manifest.part is not None:
            own = manifest.part
            lines.append(
                f"  part {own.part} of {own.num_parts}: {own.num_own:,} nodes of its own, {own.num_edges:,} edges"
            )
        for what, types in (("nodes", manifest.node_types), ("edges", manifest.edge_types)):
            lines += [f"  {what} of type {_type_text(name)}: {count:,}" for name, count in types or ()]
        attributes = {"edges": manifest.graph.edge_attrs, "nodes": manifest.graph.node_attrs}
        for what, arrays in attributes.items():
            lines += [f"  attribute of {what} {name}: {_array_text(array)}" for name, array in arrays.items()]
        for one in manifest.features:
            owner = f"{one.of}s" if one.type is None else _type_text(one.type)
            codes = "" if one.quantization is None else " of codes"
            lines.append(f"  feature of {owner} {one.name}: {_array_text(one.rows)}{codes}")
        for name, runs in manifest.items.items():
            for run in runs:
                extra = [what for what in ("labels", "times") if getattr(run, what) is not None]
                of_type = "" if run.type is None else f" of type {_type_text(run.type)}"
                of_run = f"{' with ' if extra else ''}{' and '.join(extra)}"
                kind = "items" if len(run.ids.shape) == 1 else "pairs"
                lines.append(f"  {name}{of_type}: {run.ids.shape[0]:,} {kind}{of_run}")
        options = manifest.notes.get("options")
        if isinstance(options, Mapping) and options.get("time_unit") is not None:
            lines.append(f"  unit of times: {options['time_unit']}")
        lines += [f"  task {_task_text(one)}" for one in _tasks(manifest.notes)]
        for ids in manifest.ids:
            lines.append(f"  ids of {ids.type}: {'integers' if ids.starts is None else 'texts'}")
        lines.append(f"  {sum(map(num_bytes, arrays_of(manifest))):,} bytes in {len(arrays_of(manifest))} arrays")
        return "\n".join(lines)

    def verify(self) -> None:
        """Read every file, and compare it with its checksum in the manifest; check the ids of the graph.

        Raises
        ------
        InputError
            If a file is not the one that was written, with the name of the first such file.
            If an id of the graph is out of range.
        """
        check_as_written(self.path, arrays_of(self.manifest))
        self.graph.content_digest()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            raise missing(self, name)

    def __repr__(self) -> str:
        items = f", items={list(self.items)}" if self.items else ""
        items += f", part {self.part.number} of {self.part.num_parts}" if self.part is not None else ""
        return f"Dataset({str(self.path)!r}, {self.graph!r}{items})"


def check_as_written(folder: Path, arrays: Iterable[ArrayFile]) -> None:
    """Compare arrays of a folder with their checksums.

    Raises
    ------
    InputError
        If a file is not the one that was written, with its name.
    """
    for array in arrays:
        path = folder / array.file
        if array.sha256 is not None and sha256_of(path) != array.sha256:
            raise InputError(
                f"verify: expected in {path} the bytes of its checksum in the manifest, got others; copy it again"
            )


def _type_text(name: Any) -> str:
    return name if isinstance(name, str) else " ".join(name)


def _tasks(notes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tasks in notes, which may hold anything."""
    tasks = notes.get("tasks")
    return [one for one in tasks if isinstance(one, Mapping)] if isinstance(tasks, list) else []


def _task_text(task: Mapping[str, Any]) -> str:
    fields = ", ".join(f"{name}={value}" for name, value in task.items() if name != "name")
    return f"{task.get('name', 'without a name')}{': ' if fields else ''}{fields}"


def _array_text(array: ArrayFile) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"
