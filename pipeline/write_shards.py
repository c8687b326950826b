"""Shards on disk, written: each part of a graph and its features in a folder of its own."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError
from headrace.ops.gather import gather_rows
from headrace.ops.rows import edge_positions, row_starts
from headrace.pipeline.array_file import write_array
from headrace.pipeline.features import FeatureSource, FeatureStore
from headrace.pipeline.graph import Graph
from headrace.pipeline.graph_shard import check_can_be_cut, edge_id_dtype
from headrace.pipeline.new_folder import new_folder
from headrace.pipeline.partition import HashPartition, Partition, RangePartition
from headrace.pipeline.shard_meta import (
    OWNERS,
    FeatureMeta,
    RowsMeta,
    ShardMeta,
    file_of,
    holds_shards,
    part_folder,
    whole_folder,
)
from headrace.pipeline.sharded_feature import ShardedFeature
from headrace.pipeline.terminal import shows_bars

#: Bytes of rows that are read at a time.
PIECE_BYTES = 8 << 20


def write_shards(
    path: str | os.PathLike[str],
    graph: Graph,
    partition: Partition,
    store: FeatureStore | None = None,
    *,
    whole: str | Collection[str] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write the parts of a graph and of its features to a folder, for ranks that `load_shards`.

    Arrays are plain ``.npy`` files; `headrace.pipeline.shard_meta` lists them. One process writes all parts, one after
    the other and each in pieces, so memory maps larger than memory can be cut. The folder appears when it is complete.

    Parameters
    ----------
    path
        Of the folder.
    graph
        A whole graph, without edge types.
    partition
        The owner of each of its vertices.
    store
        Features. Those of nodes are cut as the graph is, those of edges are written once, for all ranks.
    whole
        Node features to write once for all ranks instead, as labels must be. By default those of one number per row.
    overwrite
        Replace the shards that are at `path`; anything else that is there stays, and is an error.
    progress
        Show a bar of bytes written.

    Raises
    ------
    GraphError
        If the graph has edge types or is a shard itself, or the partition is one of another number of vertices.
    FeatureError
        If `whole` names no node features, or a feature to be cut has not one row per vertex.
    InputError
        If `path` exists and may not be replaced.
    OSError
        If the disk is full, or not ours to write to.
    """
    from tqdm.auto import tqdm

    silent = not (progress and shows_bars())

    check_can_be_cut(graph, partition, "write_shards")
    features = FeatureStore() if store is None else store
    meta = _describe(graph, partition, features, whole)
    total = _total_bytes(graph, features, meta)
    with (
        new_folder(Path(path), overwrite=overwrite, replaceable=holds_shards) as folder,
        tqdm(total=total, desc="write shards", unit="B", unit_scale=True, disable=silent) as bar,
    ):
        writer = _Writer(bar)
        _write_common(writer, folder, partition, features, meta)
        for part in range(partition.num_parts):
            _write_part(writer, part_folder(folder, part), graph, partition.owned(part), features, meta)
        meta.write(folder)


class _Writer:
    """Writes files, and tells a progress bar how far it has come."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def write(self, path: Path, dtype: torch_dtype, shape: tuple[int, ...], pieces: Iterator[Tensor]) -> None:
        """Write one file."""
        write_array(path, dtype, shape, self._counted(pieces))

    def _counted(self, pieces: Iterator[Tensor]) -> Iterator[Tensor]:
        for piece in pieces:
            yield piece
            self._bar.update(piece.numel() * piece.element_size())


def _describe(
    graph: Graph, partition: Partition, store: FeatureStore, whole: str | Collection[str] | None
) -> ShardMeta:
    names = {whole} if isinstance(whole, str) else whole
    if names is None:
        names = {name for name, source in store.node.items() if math.prod(source.shape[1:]) == 1}
    for name in names:
        store.node[name]  # an unknown one is refused with those that there are
    for name, source in store.node.items():
        if isinstance(source, ShardedFeature):
            raise FeatureError(f"write_shards: node feature {name!r} is in shards already; give all of its rows")
        if name not in names and source.num_rows != graph.num_nodes:
            raise FeatureError(
                f"write_shards: expected a row of node feature {name!r} for each of {graph.num_nodes} vertices, got "
                f"{source.num_rows}; cut it to that, or name it in whole="
            )
    kind = {RangePartition: "range", HashPartition: "hash"}.get(type(partition), "table")
    types = graph.node_types
    return ShardMeta(
        graph.num_nodes,
        graph.num_edges,
        partition.num_parts,
        kind,
        partition.sizes if kind == "range" else None,
        graph.content_digest(),
        RowsMeta.of(graph.indices).dtype,
        {name: RowsMeta.of(rows) for name, rows in graph.edge_attrs_csc.items()},
        None if types is None else tuple(zip(map(str, types.names), types.offsets.diff().tolist(), strict=True)),
        {name: FeatureMeta.of(source, whole=name in names) for name, source in store.node.items()},
        {name: FeatureMeta.of(source, whole=True) for name, source in store.edge.items()},
    )


def _total_bytes(graph: Graph, store: FeatureStore, meta: ShardMeta) -> int:
    starts = 8 * (graph.num_nodes + meta.num_parts)
    owners = 4 * graph.num_nodes if meta.partition == "table" else 0
    of_edge = graph.indices.element_size() + edge_id_dtype(graph.num_edges).itemsize
    of_edge += sum(rows[:1].numel() * rows.element_size() for rows in graph.edge_attrs_csc.values() if graph.num_edges)
    sources = [*store.node.values(), *store.edge.values()]
    return starts + owners + of_edge * graph.num_edges + sum(source.row_bytes * source.num_rows for source in sources)


def _write_common(writer: _Writer, folder: Path, partition: Partition, store: FeatureStore, meta: ShardMeta) -> None:
    """Write what all ranks read: the table of owners, and features that are not cut."""
    num_nodes = partition.num_nodes
    if meta.partition == "table":
        owners = (partition.owner(ids) for ids in _ids(num_nodes, 8))
        writer.write(folder / OWNERS, torch.int32, (num_nodes,), owners)
    folder = whole_folder(folder)
    folder.mkdir()
    for kind, sources, features in (("node", store.node, meta.node), ("edge", store.edge, meta.edge)):
        for name, source in sources.items():
            if features[name].whole:
                _write_rows(writer, folder / file_of(kind, name), source, _ids(source.num_rows, source.row_bytes))


def _write_part(
    writer: _Writer, folder: Path, graph: Graph, owned: Tensor, store: FeatureStore, meta: ShardMeta
) -> None:
    folder.mkdir()
    starts = row_starts(graph.indptr, owned)
    num_edges = int(starts[-1])
    writer.write(folder / "indptr.npy", torch.int64, (len(starts),), iter([starts]))

    def positions() -> Iterator[Tensor]:
        # Found once for each file: that is cheaper than a second shard's worth of memory.
        return (piece for _, piece in edge_positions(graph.indptr, owned, starts))

    indices = (gather_rows(graph.indices, piece) for piece in positions())
    writer.write(folder / "indices.npy", graph.indices.dtype, (num_edges,), indices)
    dtype = edge_id_dtype(graph.num_edges)
    ids = (graph.original_edge_ids(piece).to(dtype) for piece in positions())
    writer.write(folder / "edge_ids.npy", dtype, (num_edges,), ids)
    for name, rows in graph.edge_attrs_csc.items():
        attributes = (gather_rows(rows, piece) for piece in positions())
        shape = (num_edges, *rows.shape[1:])
        writer.write(folder / file_of("edge_attribute", name), rows.dtype, shape, attributes)
    for name, source in store.node.items():
        if not meta.node[name].whole:
            step = _rows_at_a_time(source.row_bytes)
            pieces = (owned[low : low + step] for low in range(0, len(owned), step))
            _write_rows(writer, folder / file_of("node", name), source, pieces, len(owned))


def _write_rows(
    writer: _Writer, path: Path, source: FeatureSource, ids: Iterator[Tensor], num_rows: int | None = None
) -> None:
    shape = (source.num_rows if num_rows is None else num_rows, *source.shape[1:])
    writer.write(path, source.dtype, shape, (source.read(piece) for piece in ids))


def _ids(num_rows: int, row_bytes: int) -> Iterator[Tensor]:
    """Yield the ids of all rows, some at a time."""
    step = _rows_at_a_time(row_bytes)
    return (torch.arange(low, min(low + step, num_rows)) for low in range(0, num_rows, step))


def _rows_at_a_time(row_bytes: int) -> int:
    return max(1, PIECE_BYTES // max(row_bytes, 8))
