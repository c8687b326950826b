"""Data sets on disk, opened: memory maps of the arrays, and nothing is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import NDArray
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import Named
from headrace.pipeline.data import Graph, Items, check_kind, check_switches
from headrace.pipeline.data.graph_machinery import ITEMS_BESIDE, NUMBERING, kept
from headrace.pipeline.data.registry import register
from headrace.pipeline.storage.array_file import open_stored, read_array
from headrace.pipeline.storage.dataset.folder_writer import num_bytes, sha256_of
from headrace.pipeline.storage.dataset.id_map import IdMap, RowNumbers
from headrace.pipeline.storage.dataset.manifest import MANIFEST, ArrayFile, ItemFiles, Manifest, arrays_of
from headrace.pipeline.storage.dataset.opened_graph import OpenedGraph
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.quantized_feature import with_scale
from headrace.pipeline.storage.rows_meta import offsets_of


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set on disk; `open_dataset` opens one.

    Parameters
    ----------
    path
        The folder.
    graph
        The graph, in memory maps. Its arrays are checked when they are first read.
    store
        The features, in memory maps.
    items
        Items by name, such as ``items["train"]``, for `ItemSampler`.
    ids
        By node type ("node" in a graph without types) the users' own ids: ``ids["node"].external(ours)`` and
        ``ids["node"].ours(external)``. Of types without ids of their own these are the numbers of nodes.
    notes
        Notes of the writer, such as the sources and counts of a conversion.
    """

    path: Path
    graph: Graph
    store: FeatureStore
    items: Mapping[str, Items]
    ids: Mapping[str, IdMap]
    notes: Mapping[str, Any]
    manifest: Manifest

    @property
    def numbering(self) -> str | None:
        """A short text that tells which node has which of the users' own ids: another one where any moved or was added.

        Items and configs are refused for a graph of another one, and of graphs made of it by `Graph.undirected`,
        `Graph.with_reverse` and `Graph.with_self_loops`. None where the manifest has no checksums.
        """
        return self.manifest.numbering

    def info(self) -> str:
        """Return a text with the types, counts, dtypes and bytes of the data set."""
        manifest = self.manifest
        lines = [f"{self.path}: {manifest.num_nodes:,} nodes, {manifest.num_edges:,} edges"]
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
        for array in arrays_of(self.manifest):
            path = self.path / array.file
            if array.sha256 is not None and sha256_of(path) != array.sha256:
                raise InputError(
                    f"verify: expected in {path} the bytes of its checksum in {MANIFEST}, got others; copy it again"
                )
        self.graph.content_digest()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            from headrace.pipeline.storage.dataset.dataset_words import missing

            raise missing(self, name)

    def __repr__(self) -> str:
        items = f", items={list(self.items)}" if self.items else ""
        return f"Dataset({str(self.path)!r}, {self.graph!r}{items})"


def open_dataset(path: str | os.PathLike[str], *, memory_map: bool = True) -> Dataset:
    """Open a data set that `save_dataset` or ``headrace convert`` wrote.

    Arrays are memory maps: opening takes milliseconds for any size, and computes no checksum
    (``data.verify()`` does). Checked are the manifest, and that each array is a regular file below the folder, with the
    dtype and shape of the manifest and the length of its header. Ids of the graph are checked when it is first sampled.
    No Python object is unpickled, and nothing in the folder is executed.

    Parameters
    ----------
    path
        The folder.
    memory_map
        Leave arrays on disk. False reads all of them now.

    Returns
    -------
    Dataset
        With ``graph``, ``store``, ``items["train"]``, ``ids``, ``info()`` and ``verify()``.

    Raises
    ------
    InputError
        If the folder holds no data set of this version, or a file is missing, leads outside the folder, or is damaged.
    """
    check_switches("open_dataset", memory_map=memory_map)
    check_kind(path, (str, os.PathLike), "open_dataset: expected path to be a folder", "name it", InputError)
    try:
        folder = Path(os.path.realpath(path))
    except ValueError as cause:
        raise InputError(f"open_dataset: expected path to be a folder, got {path!r} ({cause})") from cause
    manifest = Manifest.read(folder)
    reader = _Reader(folder, memory_map)
    files = manifest.graph
    graph = OpenedGraph.of(
        f"open_dataset: {folder}",
        reader.needed_tensor(files.indptr),
        reader.needed_tensor(files.indices),
        reader.tensor(files.edge_ids),
        reader.tensor(files.node_ids),
        {name: reader.needed_tensor(array) for name, array in files.edge_attrs.items()},
        {name: reader.needed_tensor(array) for name, array in files.node_attrs.items()},
        (offsets_of(manifest.node_types), offsets_of(manifest.edge_types)),
    )
    features: dict[str, dict[Any, Any]] = {"node": {}, "edge": {}}
    for one in manifest.features:
        rows = with_scale(reader.array(one.rows), one.quantization)
        features[one.of][one.name if one.type is None else (one.type, one.name)] = rows
    numbering = manifest.numbering
    items = {name: replace(_items(reader, runs), numbering=numbering) for name, runs in manifest.items.items()}
    kept(graph).tables |= {ITEMS_BESIDE: items, NUMBERING: numbering}
    types = manifest.node_types or (("node", manifest.num_nodes),)
    ids: dict[str, IdMap] = {str(name): RowNumbers(count) for name, count in types}
    ids |= {
        one.type: IdMap(
            reader.array(one.values),
            None if one.starts is None else reader.array(one.starts),
            None if one.order is None else reader.array(one.order),
        )
        for one in manifest.ids
    }
    return Dataset(
        folder,
        graph,
        FeatureStore(features["node"], features["edge"]),
        Named("Dataset.items", items),
        Named("Dataset.ids", ids),
        Named("Dataset.notes", manifest.notes),
        manifest,
    )


@register
def save_graph(graph: Graph, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a graph alone; `hr.Graph.save` documents it."""
    save_dataset(path, graph, overwrite=overwrite, progress=False)


@register
def load_graph(path: str | os.PathLike[str], memory_map: bool) -> Graph:
    """Return the graph of a data set; `hr.Graph.load` documents it."""
    return open_dataset(path, memory_map=memory_map).graph


class _Reader:
    """Opens the files of one folder."""

    def __init__(self, folder: Path, memory_map: bool) -> None:
        self._folder = folder
        self._memory_map = memory_map

    def path(self, described: ArrayFile) -> Path:
        """Return the file of an array, which must be below the folder."""
        path = self._folder / described.file
        if not Path(os.path.realpath(path)).is_relative_to(self._folder):
            raise InputError(
                f"open_dataset: expected {path} to be below the folder, got a link to outside; copy the file there"
            )
        return path

    def array(self, described: ArrayFile) -> NDArray[Any]:
        """Return an array as the manifest describes it."""
        dtype, shape = described.torch_dtype, described.shape
        return open_stored(self.path(described), dtype, shape, memory_map=self._memory_map)

    def needed_tensor(self, described: ArrayFile) -> Tensor:
        """Return an array as a tensor."""
        dtype, shape = described.torch_dtype, described.shape
        return read_array(self.path(described), dtype, shape, memory_map=self._memory_map)

    def tensor(self, described: ArrayFile | None) -> Tensor | None:
        """Return an array as a tensor, if there is one."""
        return None if described is None else self.needed_tensor(described)


def _items(reader: _Reader, runs: tuple[ItemFiles, ...]) -> Items:
    """Return items, by type if they have types."""
    by_type = {run.type: tuple(reader.tensor(one) for one in (run.ids, run.labels, run.times)) for run in runs}
    if None in by_type and len(runs) == 1:
        own = by_type[None]
        return Items(own[0], own[1], own[2])
    if None in by_type or len(by_type) < len(runs) or not runs:
        raise InputError(f"open_dataset: expected items of different types, or of none, got {list(by_type)}")
    columns = [{name: parts[column] for name, parts in by_type.items()} for column in range(3)]
    for name, column in zip(("labels", "times"), columns[1:], strict=True):
        lacking = [one for one, rows in column.items() if rows is None]
        if 0 < len(lacking) < len(column):
            raise InputError(f"open_dataset: expected {name} of all types of items or of none, got none of {lacking}")
    ids, labels, times = (None if None in column.values() else column for column in columns)
    return Items(ids, labels, times)


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
