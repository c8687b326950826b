"""Data sets on disk, written: a graph, features, items and ids in one folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.pipeline.data.arrays import as_cpu_tensor, check_kind
from headrace.pipeline.data.checks import check_switches
from headrace.pipeline.data.feature_names import FeatureName, is_name
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.data.graph_types import edge_types_of, node_types_of
from headrace.pipeline.data.items import ItemSet
from headrace.pipeline.data.new_folder import check_is_free, new_folder
from headrace.pipeline.data.split_items import Items
from headrace.pipeline.data.times import as_times
from headrace.pipeline.data.typed_items import TypeRuns, joined_rows
from headrace.pipeline.data.types import TypeName, type_number
from headrace.pipeline.storage.array_file import PIECE_BYTES
from headrace.pipeline.storage.dataset.contents import contents_of_dataset
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile, GraphFiles, IdFiles, ItemFiles
from headrace.pipeline.storage.dataset.folder_writer import FolderWriter
from headrace.pipeline.storage.dataset.id_map import IdMap, RowNumbers
from headrace.pipeline.storage.dataset.manifest import Manifest
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.json_fields import as_utf8, counts_of
from headrace.pipeline.storage.json_values import as_json
from headrace.pipeline.storage.terminal import progress_bar

_STAGE = "save_dataset"


def save_dataset(
    path: str | os.PathLike[str],
    graph: Graph,
    store: FeatureStore | None = None,
    *,
    items: Mapping[str, Any] | None = None,
    ids: Mapping[str, Any] | None = None,
    notes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write a data set to a folder, for `open_dataset`.

    The folder holds ``.npy`` files and a manifest in JSON, ``dataset.json``, with dtypes, shapes and a SHA-256 of each
    file; the format is documented in `headrace.pipeline.storage.dataset.manifest`. Nothing is pickled. It is written
    under a hidden name beside `path` and renamed, or swapped with the old folder, when it is complete: a run that is
    killed at any moment leaves the old data set or the new one.
    Features are read in pieces: memory maps and files larger than memory can be saved.

    Parameters
    ----------
    path
        The folder to make.
    graph
        A whole graph, with its types, attributes and times.
    store
        Features, also of types.
    items
        By name, such as "train", items as `ItemSampler` takes them: ids, masks, pairs, with labels, by type, `hr.Items`
        with times; the parts of `split_nodes`, and ``split_links(...).items``.
    ids
        By node type ("node" in a graph without types), the users' own ids of all its nodes: integers or texts, or the
        ids of another data set, ``data.ids``.
    notes
        Texts, numbers, lists and dictionaries to keep in the manifest, which JSON gives back as they are;
        ``data.notes`` of a conversion keeps the unit of times.
    overwrite
        Replace a data set at `path`, with the parts inside it, at once when the new one is complete; if anything else
        is there, also beside the files of the data set, that is an error with its name.
    progress
        Show a bar of bytes written.

    Raises
    ------
    InputError
        If `graph` is not a whole graph, or there is no such type.
        If `path` exists and may not be replaced, another run writes it now, notes would be read as something else or
        names are no Unicode, ids repeat or have another length than their type, or an argument has a wrong type.
        If items are not items, or are not in the graph.
        If a feature does not have a row for each node or edge.
    OSError
        If the disk is full, or `path` cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import headrace as hr, torch
    >>> folder = tempfile.mkdtemp() + "/cycle"
    >>> graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0])
    >>> store = hr.FeatureStore(node={"x": torch.rand(3, 4)})
    >>> hr.save_dataset(folder, graph, store, items={"train": [0, 2]}, ids={"node": ["a", "b", "c"]}, progress=False)
    >>> data = hr.open_dataset(folder)
    >>> plan = hr.ItemSampler(data.items["train"]).sample_neighbor(data.graph, [2])
    >>> plan = plan.fetch_feature(data.store, node=["x"])
    >>> [data.ids["node"].external(batch.seeds) for batch in plan.loader()]
    [['a', 'c']]
    """
    check_switches(_STAGE, overwrite=overwrite, progress=progress)
    check_kind(path, (str, os.PathLike), f"{_STAGE}: expected path to be a folder", "name it", InputError)
    advice = "save a graph before it is cut into shards"
    check_kind(graph, Graph, f"{_STAGE}: expected graph to be an hr.Graph", advice, InputError)
    features = FeatureStore() if store is None else store
    check_kind(features, FeatureStore, f"{_STAGE}: expected store to be an hr.FeatureStore", "make one", InputError)
    for name, value in (("items", items), ("ids", ids), ("notes", notes)):
        kind = (Mapping, type(None))
        check_kind(value, kind, f"{_STAGE}: expected {name} to be a dictionary", "pass {name: value}", InputError)
    sources = _checked_features(graph, features)
    _refuse_names_of_no_file(graph, features, items or {})
    runs = {_name_of_items(name): _runs(graph, one) for name, one in (items or {}).items()}
    maps = {name: _id_map(graph, name, one) for name, one in (ids or {}).items()}
    kept_notes = as_json(notes or {}, f"{_STAGE}: notes")
    folder = Path(path)
    check_is_free(folder, overwrite=overwrite, contents=contents_of_dataset, what="a data set")
    with (
        new_folder(folder, overwrite=overwrite, contents=contents_of_dataset, what="a data set") as draft,
        progress_bar(shown=progress, desc="save data set", unit="B", unit_scale=True) as bar,
    ):
        writer = FolderWriter(draft, bar.update)
        Manifest(
            graph.num_nodes,
            graph.num_edges,
            counts_of(graph.node_types),
            counts_of(graph.edge_types),
            _write_graph(writer, graph),
            tuple(write_feature(writer, of, name, source) for of, name, source in sources),
            {name: tuple(write_items(writer, name, run) for run in some) for name, some in runs.items()},
            tuple(write_ids(writer, name, one) for name, one in maps.items() if not isinstance(one, RowNumbers)),
            kept_notes,
        ).write(draft)


def write_ids(writer: FolderWriter, name: str, ids: IdMap) -> IdFiles:
    """Write the users' ids of a node type."""
    arrays = {"values": ids.values, "starts": ids.starts, "order": ids.order}
    files = {
        what: None if array is None else writer.tensor(("ids", name, what), as_cpu_tensor(array, "ids"))
        for what, array in arrays.items()
    }
    values = files["values"]
    assert values is not None  # the ids themselves
    return IdFiles(name, values, files["starts"], files["order"])


def _write_graph(writer: FolderWriter, graph: Graph) -> GraphFiles:
    def maybe(name: str, tensor: Tensor | None) -> ArrayFile | None:
        return None if tensor is None else writer.tensor(("graph", name), tensor)

    return GraphFiles(
        writer.tensor(("graph", "indptr"), graph.indptr),
        writer.tensor(("graph", "indices"), graph.indices),
        maybe("edge_ids", graph.edge_permutation),
        maybe("node_ids", graph.node_ids),
        {name: writer.tensor(("edge_attribute", name), rows) for name, rows in graph.edge_attrs_csc.items()},
        {name: writer.tensor(("node_attribute", name), rows) for name, rows in graph.node_attrs.items()},
    )


def _refuse_names_of_no_file(graph: Graph, store: FeatureStore, items: Mapping[str, Any]) -> None:
    """Refuse names that are no Unicode before anything is written."""
    of_types = [*node_types_of(graph).names, *edge_types_of(graph).names]
    names = [*of_types, *store.node, *store.edge, *graph.edge_attrs_csc, *graph.node_attrs, *filter(is_name, items)]
    for name in names:
        as_utf8(json.dumps(name, ensure_ascii=False), f"{_STAGE}: names")


def _checked_features(graph: Graph, store: FeatureStore) -> list[tuple[str, Any, FeatureSource]]:
    types = node_types_of(graph), edge_types_of(graph)
    found = []
    for of, sources, of_kind in (("node", store.node, types[0]), ("edge", store.edge, types[1])):
        for name in sources:
            if not isinstance(name, str):
                type_number(of_kind, name[0])  # an unknown type is refused with those that exist
            found.append((of, name, sources.in_contract(name)))
    store.check(
        node=list(store.node),
        edge=list(store.edge),
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        types=types,
        stage=_STAGE,
    )
    return found


def write_feature(
    writer: FolderWriter, of: str, name: FeatureName, source: FeatureSource, ids: Tensor | None = None
) -> FeatureFile:
    """Write the rows of a feature of nodes or edges: all, or those of some ids, int64[n]."""
    of_type, own = (None, name) if isinstance(name, str) else name
    num_rows = int(source.num_rows) if ids is None else len(ids)
    rows = max(1, PIECE_BYTES // max(8, source.row_bytes))  # whose ids take 8 bytes each
    pieces = (
        source.read(_ids(ids, start, min(start + rows, num_rows))).rows.contiguous()
        for start in range(0, num_rows, rows)
    )
    shape = (num_rows, *map(int, source.shape[1:]))
    label = of_type if isinstance(of_type, str) else ",".join(of_type or ())
    array = writer.write((of, *([label] if label else []), own), source.dtype, shape, pieces)
    how = source.quantization
    return FeatureFile(of, of_type, own, array, None if how is None else how.fields())


def _ids(ids: Tensor | None, start: int, stop: int) -> Tensor:
    return torch.arange(start, stop, device="cpu") if ids is None else ids[start:stop]


def _name_of_items(name: object) -> str:
    if not isinstance(name, str):
        raise InputError(f'{_STAGE}: expected items by name, such as {{"train": ids}}, got {name!r}')
    return name


def _runs(graph: Graph, given: Any) -> list[tuple[TypeName | None, Tensor, Tensor | None, Tensor | None]]:
    """Return items type by type: their ids, labels and times."""
    items = ItemSet.of(given, allow_none=True)
    times = _times(given.times, items) if isinstance(given, Items) else None
    items.in_space(node_types_of(graph), edge_types_of(graph))
    ids = items.all_ids()
    if items.types is None:
        if len(ids) and items.largest_id >= graph.num_nodes:
            raise InputError(f"{_STAGE}: expected items in [0, {graph.num_nodes}), got node {items.largest_id}")
        if items.mask_size not in (None, graph.num_nodes):
            raise InputError(f"{_STAGE}: expected a mask of {graph.num_nodes} nodes, got one of {items.mask_size}")
        return [(None, ids, items.labels, times)]
    found: list[tuple[TypeName | None, Tensor, Tensor | None, Tensor | None]] = []
    start = 0
    for name, count in items.types:
        own = slice(start, start + count)
        labels, of_run = (None if rows is None else rows[own] for rows in (items.labels, times))
        found.append((name, ids[own], labels, of_run))
        start += count
    return found


def _times(times: Any, items: ItemSet) -> Tensor | None:
    if times is None or isinstance(times, str):
        return None
    runs: TypeRuns | None = items.types
    if runs is not None and isinstance(times, Mapping):
        return joined_rows(times, runs, "times", lambda one: as_times(one, "times"))
    found = as_times(times, "times")
    if len(found) != len(items):
        raise InputError(f"{_STAGE}: expected a time for each of {len(items)} items, got {len(found)}")
    return found


def write_items(writer: FolderWriter, name: str, run: tuple[TypeName | None, Tensor, Any, Any]) -> ItemFiles:
    """Write items of one type, or of a graph without types: their ids, labels and times."""
    of_type, *arrays = run
    label = of_type if isinstance(of_type, str) else ",".join(of_type or ())
    parts = ("items", name, *([label] if label else []))
    ids, labels, times = (
        None if array is None else writer.tensor((*parts, what), array)
        for what, array in zip(("ids", "labels", "times"), arrays, strict=True)
    )
    assert ids is not None  # items are ids
    return ItemFiles(of_type, ids, labels, times)


def _id_map(graph: Graph, name: Any, ids: Any) -> IdMap:
    types = node_types_of(graph)
    own = types.id_range(name)
    made = ids if isinstance(ids, IdMap) else IdMap.of(ids, str(name))
    if len(made) != len(own):
        raise InputError(f"{_STAGE}: expected an id for each of {len(own)} nodes of {name!r}, got {len(made)}")
    return made
