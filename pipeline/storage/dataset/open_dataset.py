"""Data sets and parts of them on disk, opened: memory maps of the arrays, and of a data set nothing is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.names import Named
from headrace.pipeline.data import FeatureName, Graph, GraphView, check_kind, check_switches
from headrace.pipeline.data.graph_machinery import ITEMS_BESIDE, NUMBERING, kept
from headrace.pipeline.data.registry import register
from headrace.pipeline.storage.dataset.contents import parts_inside
from headrace.pipeline.storage.dataset.dataset import Dataset, Part
from headrace.pipeline.storage.dataset.id_map import IdMap, RowNumbers
from headrace.pipeline.storage.dataset.manifest import Manifest, read_manifest
from headrace.pipeline.storage.dataset.opened_graph import OpenedGraph
from headrace.pipeline.storage.dataset.reader import Reader, read_features, read_items
from headrace.pipeline.storage.dataset.write_dataset import save_dataset
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.json_fields import offsets_of
from headrace.pipeline.storage.parts.open_parts import may_hold_parts, open_part


def open_dataset(
    path: str | os.PathLike[str],
    *,
    rank: int | None = None,
    memory_map: bool = True,
    cached: Mapping[FeatureName, ArrayLike | Tensor] | None = None,
) -> Dataset:
    """Open a data set that `save_dataset` or ``headrace convert`` wrote, or one part of it.

    Arrays are memory maps: opening takes milliseconds for any size, and computes no checksum
    (``data.verify()`` does). Checked are the manifest, and that each array is a regular file below the folder, with the
    dtype and shape of the manifest and the length of its header. Ids of the graph are checked when it is first sampled.
    No Python object is unpickled, and nothing in the folder is executed.

    Of a folder of parts, which `Dataset.partition` or ``headrace partition`` wrote, the part of one rank is opened: a
    machine needs only the files of its own parts and those beside the parts. A loader over it yields the same
    minibatches as one over ``graph.shard(...)`` and ``ShardedFeature.of(...)``, and their checkpoints are the same;
    parts that are cut by edges are no graphs of loaders yet.
    Checked are also that the parts are those of one cut, each in its own folder, by their checksums (of arrays above
    4 MiB ``data.verify()`` compares them), and that source and edge ids exist.

    Memory maps need files that do not change: a file that is truncated under a running process ends the process with
    SIGBUS, which no check can prevent. Replace a folder with ``overwrite=True``: processes of the same machine keep the
    files that they have mapped (on a network file system these may disappear). Or open with ``memory_map=False``.

    Parameters
    ----------
    path
        The folder: of a data set, of parts, or of one part.
    rank
        Of a folder of parts, which one to open; by default the rank of this process in torch.distributed.
    memory_map
        Leave arrays on disk. False reads all of them now.
    cached
        Of a part, by node feature, nodes whose rows to copy to memory, from the files of other parts; nodes of this
        part are left out. For a feature of a type, ``("paper", "x")``, by their ids within the type.

    Returns
    -------
    Dataset
        With ``graph``, ``store``, ``items["train"]``, ``ids``, ``info()`` and ``verify()``; of a part also ``part``.

    Raises
    ------
    InputError
        If the folder holds no data set of this version, or a file is missing, leads outside the folder, or is damaged.
        If there is no such part, or a file is one of another part or another cut.
        If `cached` is not by name, or has a feature that is not in shards, or nodes that do not exist.
    """
    check_switches("open_dataset", memory_map=memory_map)
    check_kind(path, (str, os.PathLike), "open_dataset: expected path to be a folder", "name it", InputError)
    kind, advice = (Mapping, type(None)), "name the feature: {'x': ids}"
    check_kind(cached, kind, "open_dataset: expected cached to be nodes by the name of a feature", advice, InputError)
    try:
        folder = Path(os.path.realpath(path))
    except ValueError as cause:
        raise InputError(f"open_dataset: expected path to be a folder, got {path!r} ({cause})") from cause
    if not may_hold_parts(folder):
        own, checksum = read_manifest(folder)
        if own.part is None:
            return _whole(folder, own, checksum, Reader(folder, memory_map=memory_map), rank, cached)
        if rank not in (None, own.part.part):
            raise InputError(
                f"open_dataset: expected the folder of part {rank} for rank={rank}, got that of part {own.part.part}, "
                f"{folder}; leave out rank, or name the folder of all parts"
            )
        # A part may be a link, beside which its set is.
        folder, rank = Path(os.path.realpath(Path(os.path.abspath(path)).parent)), own.part.part  # noqa: PTH100
    opened = open_part(folder, rank, memory_map=memory_map, cached=cached or {})
    graph, store = cast(Graph, opened.graph), opened.store  # its rows are those of a graph
    return _dataset(folder, graph, store, opened.manifest, opened.reader, part=opened.part, checksum=opened.checksum)


def _whole(
    folder: Path, manifest: Manifest, checksum: str, reader: Reader, rank: int | None, cached: Mapping[Any, Any] | None
) -> Dataset:
    """Return a data set that is no part."""
    if rank is not None or cached is not None:
        option = "rank" if rank is not None else "cached"
        inside = parts_inside(folder)
        remedy = f"open one of the parts inside, {', '.join(inside)}" if inside else "make some by headrace partition"
        raise InputError(f"open_dataset: expected parts of a graph for {option}=, got the data set {folder}; {remedy}")
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
    features = read_features(reader, manifest.features)
    store = FeatureStore(features["node"], features["edge"])
    return _dataset(folder, graph, store, manifest, reader, checksum=checksum)


def _dataset(
    folder: Path,
    graph: Graph,
    store: FeatureStore,
    manifest: Manifest,
    reader: Reader,
    *,
    checksum: str,
    part: Part | None = None,
) -> Dataset:
    numbering = manifest.numbering
    items = {name: replace(read_items(reader, runs), numbering=numbering) for name, runs in manifest.items.items()}
    if isinstance(graph, GraphView):
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
    reader.check_sizes()
    named = Named("Dataset.items", items), Named("Dataset.ids", ids), Named("Dataset.notes", manifest.notes)
    return Dataset(folder, graph, store, *named, manifest, part, checksum)


@register
def save_graph(graph: Graph, path: str | os.PathLike[str], overwrite: bool) -> None:
    """Write a graph alone; `hr.Graph.save` documents it."""
    save_dataset(path, graph, overwrite=overwrite, progress=False)


@register
def load_graph(path: str | os.PathLike[str], memory_map: bool) -> Graph:
    """Return the graph of a data set; `hr.Graph.load` documents it."""
    data = open_dataset(path, memory_map=memory_map)
    if data.part is not None:
        raise InputError(
            f"Graph.load: expected a data set, got a part of one, {path}; write hr.open_dataset(path).graph"
        )
    return data.graph
