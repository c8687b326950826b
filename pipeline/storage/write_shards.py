"""Shards on disk, written: each part of a graph and its features in a folder of its own."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops import InputError, gather_rows
from headrace.ops.graphs.rows import edge_positions, row_starts
from headrace.pipeline.data import FeatureName, Graph, check_switches, edge_types_of, node_types_of, type_number
from headrace.pipeline.data.file_errors import DISK_FULL
from headrace.pipeline.data.new_folder import new_folder
from headrace.pipeline.data.types import type_size
from headrace.pipeline.distributed.graph_shard import check_can_be_cut, edge_id_dtype
from headrace.pipeline.partition.kinds import HashPartition, RangePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.arguments_of_shards import check_arguments
from headrace.pipeline.storage.array_file import PIECE_BYTES, read_array, write_array
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.rows import read_rows
from headrace.pipeline.storage.rows_meta import FeatureMeta, RowsMeta, counts_of, file_of
from headrace.pipeline.storage.shard_meta import (
    OWNERS,
    PartMeta,
    ShardMeta,
    contents_of_shards,
    digest_of_array,
    part_folder,
    whole_folder,
)
from headrace.pipeline.storage.sharded_feature import ShardedFeature, owners_of_rows
from headrace.pipeline.storage.terminal import progress_bar


def write_shards(
    path: str | os.PathLike[str],
    graph: Graph,
    partition: Partition,
    store: FeatureStore | None = None,
    *,
    whole: str | Collection[FeatureName] | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> None:
    """Write the parts of a graph and of its features to a folder, for `load_shards`.

    Arrays are plain ``.npy`` files; `headrace.pipeline.storage.shard_meta` lists them. One process writes all parts,
    one after the other and each in pieces, so memory maps larger than memory can be partitioned. The folder appears
    when it is complete.

    It also writes fingerprints of all files, by which `load_shards` distinguishes parts and runs; for arrays above 4
    MiB they sample some thousand rows. A run that is killed leaves a hidden draft beside `path`. The next run with the
    same path removes it, with a warning, unless another process may still be writing it.

    Parameters
    ----------
    path
        The folder.
    graph
        A whole graph. Types and attributes of nodes and edges, such as times, are written, too.
    partition
        The owner of each of its nodes.
    store
        Features, also of types. Node features are divided as the graph is; edge features are written once, for all
        ranks.
    whole
        Node features to write once for all ranks, as labels must be: "y", or for features of a type a list of names
        such as ``[("paper", "y")]``. By default those with one number per row.
    overwrite
        Replace shards at `path`, at once when the new ones are complete; anything else that is there stays, and is an
        error with its name.
    progress
        Show a bar of bytes written.

    Raises
    ------
    InputError
        If the graph is itself a shard, the partition has another number of nodes, or features have a type that the
        graph does not have.
        If `whole` does not name node features, or a feature to divide does not have one row per node (of its type).
        If `path` exists and may not be replaced, another run writes it now, a name is no Unicode or too long for a
        file, or an argument has a wrong type, for example in a wrong order.
    OSError
        If the disk is full, or `path` cannot be written. For a full disk the message names `path` and the bytes needed.

    Warns
    -----
    UserWarning
        If there are drafts of runs that were killed.
    """
    check_switches("write_shards", overwrite=overwrite, progress=progress)
    check_arguments(path, graph, partition, store, whole)
    check_can_be_cut(graph, partition, "write_shards")
    features = FeatureStore() if store is None else store
    meta = _describe(graph, partition, features, whole)
    total = _total_bytes(graph, features, meta)
    try:
        with (
            new_folder(Path(path), overwrite=overwrite, contents=contents_of_shards) as folder,
            progress_bar(shown=progress, total=total, desc="write shards", unit="B", unit_scale=True) as bar,
        ):
            writer = _Writer(bar)
            shared = _write_common(writer, folder, graph, partition, features, meta)
            parts = [
                _write_part(writer, folder, graph, partition, part, features, meta)
                for part in range(partition.num_parts)
            ]
            replace(meta, shared=shared, parts=tuple(parts)).write(folder)
    except OSError as cause:
        if cause.errno in DISK_FULL:
            raise _disk_full(Path(path), total, cause) from cause
        raise


def bytes_of_shards(
    graph: Graph, partition: Partition, store: FeatureStore, whole: str | Collection[FeatureName] | None
) -> int:
    """Return the bytes that `write_shards` writes, with errors as it has them."""
    return _total_bytes(graph, store, _describe(graph, partition, store, whole))


class _Writer:
    """Writes files, and moves a progress bar along."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def write(self, path: Path, dtype: torch_dtype, shape: tuple[int, ...], pieces: Iterator[Tensor]) -> str:
        """Write one file, and return its fingerprint."""
        write_array(path, dtype, shape, pieces, piece_written=lambda content: self._bar.update(content.nbytes))
        return digest_of_array(path.name, read_array(path, dtype, shape, memory_map=True))


def _describe(
    graph: Graph, partition: Partition, store: FeatureStore, whole: str | Collection[FeatureName] | None
) -> ShardMeta:
    names = {whole} if isinstance(whole, str) else whole
    if names is None:
        names = {name for name, source in store.node.items() if math.prod(source.shape[1:]) == 1}
    for name in names:
        store.node[name]  # an unknown one is refused with those that there are
    types = node_types_of(graph), edge_types_of(graph)
    for sources, of_kind in zip((store.node, store.edge), types, strict=True):
        for name in sources:
            if not isinstance(name, str):
                type_number(of_kind, name[0])  # likewise
    for name, source in store.node.items():
        if isinstance(source, ShardedFeature):
            raise InputError(f"write_shards: node feature {name!r} is in shards already; give all of its rows")
        num_nodes = graph.num_nodes if isinstance(name, str) else type_size(types[0], name[0])
        if name not in names and source.num_rows != num_nodes:
            raise InputError(
                f"write_shards: expected a row of node feature {name!r} for each of {num_nodes} nodes, got "
                f"{source.num_rows}; cut it to that, or name it in whole="
            )
    for kind, keys in (("edge_attribute", graph.edge_attrs_csc), ("node_attribute", graph.node_attrs)):
        for key in keys:
            file_of(kind, key)  # a name that makes no file is refused here
    for kind, sources in (("node", store.node), ("edge", store.edge)):
        for name in sources:
            file_of(kind, name)
    kind = {RangePartition: "range", HashPartition: "hash"}.get(type(partition), "table")
    return ShardMeta(
        graph.num_nodes,
        graph.num_edges,
        partition.num_parts,
        kind,
        partition.sizes if kind == "range" else None,
        graph.content_digest(),
        RowsMeta.of(graph.indices).dtype,
        {name: RowsMeta.of(rows) for name, rows in graph.edge_attrs_csc.items()},
        counts_of(graph.node_types),
        {name: FeatureMeta.of(store.node.in_contract(name), whole=name in names) for name in store.node},
        {name: FeatureMeta.of(store.edge.in_contract(name), whole=True) for name in store.edge},
        edge_types=counts_of(graph.edge_types),
        node_attrs={name: RowsMeta.of(rows) for name, rows in graph.node_attrs.items()},
    )


def _total_bytes(graph: Graph, store: FeatureStore, meta: ShardMeta) -> int:
    starts = 8 * (graph.num_nodes + meta.num_parts)
    owners = 4 * graph.num_nodes if meta.partition == "table" else 0
    of_edge = graph.indices.element_size() + edge_id_dtype(graph.num_edges).itemsize
    of_edge += sum(rows[:1].numel() * rows.element_size() for rows in graph.edge_attrs_csc.values() if graph.num_edges)
    of_nodes = sum(rows.nbytes for rows in graph.node_attrs.values())
    sources = [*store.node.values(), *store.edge.values()]
    features = sum(source.row_bytes * source.num_rows for source in sources)
    return starts + owners + of_edge * graph.num_edges + of_nodes + features


def _write_common(
    writer: _Writer, folder: Path, graph: Graph, partition: Partition, store: FeatureStore, meta: ShardMeta
) -> dict[str, str]:
    """Write what all ranks read: owners in a table, node attributes, whole features; return their fingerprints."""
    num_nodes, digests = partition.num_nodes, {}
    if meta.partition == "table":
        owners = (partition.owner(ids) for ids in _ids(num_nodes, 8))
        digests[OWNERS] = writer.write(folder / OWNERS, torch.int32, (num_nodes,), owners)
    whole = whole_folder(folder)
    whole.mkdir()
    for attribute, rows in graph.node_attrs.items():
        path, row_bytes = whole / file_of("node_attribute", attribute), rows[:1].nbytes
        pieces = (gather_rows(rows, ids) for ids in _ids(num_nodes, row_bytes))
        digests[f"{whole.name}/{path.name}"] = writer.write(path, rows.dtype, tuple(rows.shape), pieces)
    for kind, sources, features in (("node", store.node, meta.node), ("edge", store.edge, meta.edge)):
        for name, source in sources.items():
            if features[name].whole:
                path, ids = whole / file_of(kind, name), _ids(source.num_rows, source.row_bytes)
                digests[f"{whole.name}/{path.name}"] = _write_rows(writer, path, source, ids)
    return digests


def _write_part(
    writer: _Writer,
    folder: Path,
    graph: Graph,
    partition: Partition,
    part: int,
    store: FeatureStore,
    meta: ShardMeta,
) -> str:
    """Write one part, and return the fingerprint of what it says of itself."""
    folder, owned = part_folder(folder, part), partition.owned(part)
    folder.mkdir()
    starts = row_starts(graph.indptr, owned)
    num_edges = int(starts[-1])
    digests = {}

    def write(name: str, dtype: torch_dtype, row: tuple[int, ...], pieces: Iterator[Tensor]) -> None:
        digests[name] = writer.write(folder / name, dtype, (num_edges, *row), pieces)

    def positions() -> Iterator[Tensor]:
        # Found once for each file: that is cheaper than a second shard's worth of memory.
        return (piece for _, piece in edge_positions(graph.indptr, owned, starts))

    digests["indptr.npy"] = writer.write(folder / "indptr.npy", torch.int64, (len(starts),), iter([starts]))
    write("indices.npy", graph.indices.dtype, (), (gather_rows(graph.indices, piece) for piece in positions()))
    dtype = edge_id_dtype(graph.num_edges)
    write("edge_ids.npy", dtype, (), (graph.original_edge_ids(piece).to(dtype) for piece in positions()))
    for attribute, rows in graph.edge_attrs_csc.items():
        pieces = (gather_rows(rows, piece) for piece in positions())
        write(file_of("edge_attribute", attribute), rows.dtype, tuple(rows.shape[1:]), pieces)
    for name, source in store.node.items():
        if not meta.node[name].whole:
            step = _rows_at_a_time(source.row_bytes)
            nodes = owned if isinstance(name, str) else owners_of_rows(name, partition, graph).owned(part)
            ids = (nodes[low : low + step] for low in range(0, len(nodes), step))
            file = file_of("node", name)
            digests[file] = _write_rows(writer, folder / file, source, ids, len(nodes))
    return PartMeta(part, digests).write(folder)


def _write_rows(
    writer: _Writer, path: Path, source: FeatureSource, ids: Iterator[Tensor], num_rows: int | None = None
) -> str:
    shape = (source.num_rows if num_rows is None else num_rows, *source.shape[1:])
    return writer.write(path, source.dtype, shape, (read_rows(source, piece, {}, num_threads=1) for piece in ids))


def _disk_full(path: Path, num_bytes: int, cause: OSError) -> OSError:
    above = next(one for one in path.absolute().parents if one.exists())
    free = shutil.disk_usage(above).free  # the draft is gone by now
    return OSError(
        cause.errno,
        f"write_shards: expected room for {num_bytes:,} bytes, but the disk is full ({cause.strerror}; {free:,} bytes "
        "are free without them); make room, or name a folder on another disk",
        str(path),
    )


def _ids(num_rows: int, row_bytes: int) -> Iterator[Tensor]:
    """Yield the ids of all rows, some at a time."""
    step = _rows_at_a_time(row_bytes)
    return (torch.arange(low, min(low + step, num_rows), device="cpu") for low in range(0, num_rows, step))


def _rows_at_a_time(row_bytes: int) -> int:
    return max(1, PIECE_BYTES // max(row_bytes, 8))
