"""Shards on disk, loaded: one rank's part of a graph and of its features."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import FeatureError, InputError
from headrace.ops.gather import empty_rows, gather_rows
from headrace.pipeline.array_file import read_array
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.comm import place_of_process
from headrace.pipeline.features import ArraySource, FeatureStore
from headrace.pipeline.graph_shard import GraphShard, edge_id_dtype, whole_indptr
from headrace.pipeline.partition import Partition, TablePartition
from headrace.pipeline.shard_meta import OWNERS, FeatureMeta, ShardMeta, dtype_of, file_of, part_folder, whole_folder
from headrace.pipeline.sharded_feature import ShardedFeature, vertices_to_copy
from headrace.pipeline.type_offsets import TypeOffsets


@dataclass(frozen=True)
class Shards:
    """One rank's part of a graph, its rows of the features, the owner of every vertex, and which part it is."""

    graph: GraphShard
    store: FeatureStore
    partition: Partition
    part: int


def load_shards(
    path: str | os.PathLike[str],
    part: int | None = None,
    *,
    memory_map: bool = True,
    cached: Mapping[str, ArrayLike | Tensor] | None = None,
) -> Shards:
    """Load one part of the shards that `write_shards` wrote.

    A loader over them finds the same minibatches as one over ``graph.shard(...)`` and ``ShardedFeature.of(...)``, and
    their checkpoints are the same. A machine needs the files of its own parts alone, beside those for all ranks.

    Parameters
    ----------
    path
        Of the folder.
    part
        Whose part to load; by default that of this process in torch.distributed.
    memory_map
        Leave arrays on disk and read the rows that are asked for; ranks on one machine share what is read. False reads
        everything now.
    cached
        By node feature, vertices of whose rows to keep copies in memory, read from the other parts' files; those that
        this part owns are left out.

    Raises
    ------
    InputError
        If the folder holds no shards of this version, there is no such part, or a file is missing, damaged or of
        another shape.
    GraphError
        If the graph's arrays contradict each other.
    FeatureError
        If `cached` names a feature that is not in shards, or vertices that there are not.
    """
    reader = _Reader(Path(path), memory_map)
    meta = reader.meta
    if part is None:
        part, _ = place_of_process(None, None)
    part = whole_number(part, f"load_shards: part of {path}", 0, InputError, meta.num_parts - 1)
    partition = reader.partition()
    graph = reader.graph(partition, part)
    copies = {name: vertices_to_copy(ids, partition) for name, ids in (cached or {}).items()}
    for name in copies:
        if name not in meta.node or meta.node[name].whole:
            in_shards = sorted(name for name, feature in meta.node.items() if not feature.whole)
            raise FeatureError(
                f"load_shards: cached names node feature {name!r}; those in shards are {in_shards or 'none'}"
            )
    node = {
        name: reader.whole("node", name, feature)
        if feature.whole
        else reader.sharded(name, feature, partition, part, copies.get(name))
        for name, feature in meta.node.items()
    }
    edge = {name: reader.whole("edge", name, feature) for name, feature in meta.edge.items()}
    return Shards(graph, FeatureStore(node=node, edge=edge), partition, part)


class _Reader:
    """Reads the files of one folder."""

    def __init__(self, folder: Path, memory_map: bool) -> None:
        self.meta = ShardMeta.read(folder)
        self._folder = folder
        self._memory_map = memory_map

    def partition(self) -> Partition:
        """Return the owners of vertices."""
        meta = self.meta
        if meta.partition == "hash":
            return Partition.hash(meta.num_nodes, meta.num_parts)
        if meta.partition == "range" and meta.sizes is not None:
            partition = Partition.range_of(meta.sizes)
        elif meta.partition == "table":
            owners = self._read(self._folder / OWNERS, torch.int32, (meta.num_nodes,))
            partition = TablePartition(owners, meta.num_parts, copy=False)
        else:
            raise InputError(
                f"load_shards: {self._folder} has a partition of kind {meta.partition!r}; expected range, hash or table"
            )
        if (partition.num_nodes, partition.num_parts) != (meta.num_nodes, meta.num_parts):
            raise InputError(
                f"load_shards: {self._folder} has {meta.num_nodes} vertices in {meta.num_parts} parts, but sizes of "
                f"{partition.num_nodes} in {partition.num_parts}; copy the shards once more"
            )
        return partition

    def graph(self, partition: Partition, part: int) -> GraphShard:
        """Return the in-edges of the vertices that a part owns."""
        meta, folder = self.meta, part_folder(self._folder, part)
        starts = self._read(folder / "indptr.npy", torch.int64, (partition.sizes[part] + 1,))
        num_edges = int(starts[-1])
        types = None if meta.node_types is None else TypeOffsets.from_counts(dict(meta.node_types))
        return GraphShard(
            whole_indptr(meta.num_nodes, partition.owned(part), starts),
            self._read(folder / "indices.npy", dtype_of(meta.indices), (num_edges,)),
            self._read(folder / "edge_ids.npy", edge_id_dtype(meta.num_edges), (num_edges,)),
            {
                name: self._read(folder / file_of("edge_attribute", name), rows.torch_dtype, (num_edges, *rows.shape))
                for name, rows in meta.edge_attrs.items()
            },
            types,
            partition=partition,
            part=part,
            whole_num_edges=meta.num_edges,
            whole_digest=meta.digest,
        )

    def whole(self, kind: str, name: str, feature: FeatureMeta) -> ArraySource:
        """Return a feature that every rank reads whole."""
        path = whole_folder(self._folder) / file_of(kind, name)
        rows = self._read(path, feature.rows.torch_dtype, (feature.num_rows, *feature.rows.shape))
        return ArraySource(rows, f"{kind} feature {name!r}", digest=feature.digest)

    def sharded(
        self, name: str, feature: FeatureMeta, partition: Partition, part: int, asked: Tensor | None
    ) -> ShardedFeature:
        """Return the rows that a part owns of a node feature, and copies of those of others that are asked for."""
        rows = self._rows(name, feature, partition, part)
        copies = copied = None
        if asked is not None:
            copies = asked[partition.owner(asked) != part]
            copied = empty_rows((len(copies), *feature.rows.shape), feature.rows.torch_dtype)
            owners = partition.owner(copies)
            for owner in torch.unique(owners).tolist():
                chosen = (owners == owner).nonzero().reshape(-1)
                positions = partition.position(copies[chosen])
                copied[chosen] = gather_rows(self._rows(name, feature, partition, owner), positions)
        return ShardedFeature(
            rows, partition, part, digest=feature.digest, cached=copies, cached_rows=copied, asked=asked
        )

    def _rows(self, name: str, feature: FeatureMeta, partition: Partition, part: int) -> Tensor:
        path = part_folder(self._folder, part) / file_of("node", name)
        return self._read(path, feature.rows.torch_dtype, (partition.sizes[part], *feature.rows.shape))

    def _read(self, path: Path, dtype: torch_dtype, shape: tuple[int, ...]) -> Tensor:
        return read_array(path, dtype, shape, memory_map=self._memory_map)
