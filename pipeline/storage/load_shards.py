"""Shards on disk, loaded: one rank's part of a graph and of its features."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows, gather_rows
from headrace.ops.memory_limit import check_fits_memory
from headrace.pipeline.data import CPU, DISK, FeatureName, Items, check_switches, whole_number
from headrace.pipeline.data.feature_names import listed
from headrace.pipeline.distributed.graph_shard import GraphShard, edge_id_dtype, whole_indptr
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.partition.kinds import TablePartition
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.arguments_of_shards import folder_of_shards
from headrace.pipeline.storage.array_file import open_array, read_array
from headrace.pipeline.storage.array_source import ArraySource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.quantized_feature import with_scale
from headrace.pipeline.storage.reordering import looked_up
from headrace.pipeline.storage.rows_meta import FeatureMeta, RowsMeta, dtype_of, file_of, offsets_of
from headrace.pipeline.storage.shard_meta import (
    META,
    OWNERS,
    PartMeta,
    ShardMeta,
    check_array,
    part_folder,
    whole_folder,
)
from headrace.pipeline.storage.sharded_feature import ShardedFeature, nodes_to_copy, owners_of_rows

#: The node feature with the ids of nodes before ``headrace partition --reorder``.
ORIGINAL_ID = "original_id"

Given = TypeVar("Given", Items, Tensor)


@dataclass(frozen=True)
class Shards:
    """One rank's part of a graph, its rows of the features, the owner of every node, and the number of the part."""

    graph: GraphShard
    store: FeatureStore
    partition: Partition
    part: int

    def renumbered(self, items: Given) -> Given:
        """Return items of the graph that was cut, by the ids that its nodes have in these shards.

        ``headrace partition --reorder`` gives nodes other ids. Without it items are returned as they are.

        Parameters
        ----------
        items
            Items of a data set without node types, ``data.items["train"]``, or a tensor: ids of nodes or of pairs.

        Raises
        ------
        InputError
            For values that are not ids of nodes.
        """
        if ORIGINAL_ID not in self.store.node:
            return items
        nodes = torch.arange(self.graph.num_nodes, device="cpu")
        ordered, rank = self.store.node.in_contract(ORIGINAL_ID).read(nodes).rows.sort(dim=0)
        if not torch.equal(ordered, nodes):
            return items  # a feature of the user's own

        def moved(ids: ArrayLike | Tensor) -> Tensor:
            return looked_up(rank, ids, "Shards.renumbered")

        if not isinstance(items, Items):
            return moved(items)
        if isinstance(items.ids, Mapping):
            return replace(items, ids={name: moved(ids) for name, ids in items.ids.items()})
        return replace(items, ids=moved(items.ids))


def load_shards(
    path: str | os.PathLike[str],
    part: int | None = None,
    *,
    memory_map: bool = True,
    cached: Mapping[FeatureName, ArrayLike | Tensor] | None = None,
) -> Shards:
    """Load one part of the shards that `write_shards` wrote.

    A loader over them yields the same minibatches as one over ``graph.shard(...)`` and ``ShardedFeature.of(...)``, and
    their checkpoints are the same. A machine needs only the files of its own parts, and those for all ranks.

    Checked at loading: every field of the folder's ``meta.json``; that each file is a regular one, with the length of
    its header and the dtype and shape of ``meta.json``; that parts, owners and features are those of one
    `write_shards`, each part in its own folder (by fingerprints, if the shards have them); that source and edge ids
    exist. Not checked: rows of arrays above 4 MiB that the fingerprints do not sample; whether edge ids are all
    different; and files of other parts, except for rows in `cached`.

    Memory maps need files that do not change: a file that is truncated under a running process ends the process with
    SIGBUS, which no check can prevent. Sizes are checked before each file is read, and again at the end. Replace shards
    with ``write_shards(overwrite=True)``: processes of the same machine keep the files that they have mapped (on a
    network file system these may disappear). Or load with ``memory_map=False``.

    Parameters
    ----------
    path
        The folder.
    part
        The number of the part; by default the rank of this process in torch.distributed.
    memory_map
        Leave arrays on disk and read rows on request; ranks on one machine share the pages. False reads everything now.
    cached
        By node feature, nodes whose rows to copy to memory, from the files of other parts; nodes of this part are left
        out. For a feature of a type, ``("paper", "x")``, by their ids within the type.

    Raises
    ------
    InputError
        If the folder holds no shards of this version, there is no such part, or a file is missing, damaged, of
        another shape, another part or another write.
        If the graph's arrays are inconsistent, or the graph has more nodes than fit in memory.
        If `cached` is not by name, or has a feature that is not in shards, or nodes that do not exist.
    """
    check_switches("load_shards", memory_map=memory_map)
    reader = _Reader(folder_of_shards(path, cached), memory_map)
    meta = reader.meta
    if part is None:
        part, world_size = rank_of_process(None, None)
        if world_size not in (1, meta.num_parts):
            raise InputError(
                f"load_shards: expected as many parts as ranks, {world_size}, in {path}, got {meta.num_parts}; cut it "
                f"again, `headrace partition FOLDER OUT --parts {world_size}`, or name a part, part="
            )
    part = whole_number(part, f"load_shards: part of {path}", 0, InputError, meta.num_parts - 1)
    partition = reader.partition(part)
    graph = reader.graph(partition, part)
    owners = {name: owners_of_rows(name, partition, graph) for name, feature in meta.node.items() if not feature.whole}
    for name in cached or {}:
        if name not in owners:
            in_shards = sorted(owners, key=str)
            raise InputError(
                f"load_shards: expected cached to name node features in shards, {in_shards or 'none'}, got {name!r}"
            )
    copies = {name: nodes_to_copy(ids, owners[name]) for name, ids in (cached or {}).items()}
    node = {
        name: with_scale(
            reader.whole("node", name, feature)
            if feature.whole
            else reader.sharded(name, feature, owners[name], part, copies.get(name)),
            feature.quantization,
        )
        for name, feature in meta.node.items()
    }
    edge = {
        name: with_scale(reader.whole("edge", name, feature), feature.quantization)
        for name, feature in meta.edge.items()
    }
    store = FeatureStore(node=node, edge=edge)
    reader.check_sizes()
    return Shards(graph, store, partition, part)


class _Reader:
    """Reads the files of one folder."""

    def __init__(self, folder: Path, memory_map: bool) -> None:
        self.meta = ShardMeta.read(folder)
        self._folder = folder
        self._memory_map = memory_map
        self._place = DISK if memory_map else CPU
        self._parts: dict[int, PartMeta] = {}
        self._sizes: dict[Path, int] = {}

    def partition(self, part: int) -> Partition:
        """Return the owners of nodes, as far as `part`'s own files do not contradict them."""
        meta = self.meta
        check_fits_memory(
            8 * (meta.num_nodes + 1),
            f"load_shards: {self._folder / META} asks for {meta.num_nodes} nodes, and an indptr of them",
            "copy the shards once more",
        )
        self._of_part(part)
        if meta.partition == "range" and meta.sizes is not None:
            return Partition.range_of(meta.sizes)
        if meta.partition == "table":
            path = self._folder / OWNERS
            owners = self._read_shared(path, torch.int32, (meta.num_nodes,))
            try:
                return TablePartition(owners, meta.num_parts, copy=False)
            except InputError as cause:
                raise InputError(f"load_shards: {path} is damaged: {cause}; copy it once more") from cause
        path = part_folder(self._folder, part) / "indptr.npy"
        num_owned = max(0, open_array(path, memory_map=True).size - 1)
        # Hashing more nodes than there can be takes hours; a part of a hash is never that far from its share.
        if meta.num_nodes > 2 * meta.num_parts * (num_owned + 64):
            raise InputError(
                f"load_shards: expected about {meta.num_nodes // meta.num_parts} of {meta.num_nodes} nodes in "
                f"{path}, got {num_owned}; copy the shards once more"
            )
        return Partition.hash(meta.num_nodes, meta.num_parts)

    def graph(self, partition: Partition, part: int) -> GraphShard:
        """Return the in-edges of the nodes that a part owns."""
        meta, folder = self.meta, part_folder(self._folder, part)
        starts = self._read(part, "indptr.npy", torch.int64, (partition.sizes[part] + 1,))
        num_edges = int(starts[-1])
        if int(starts[0]) != 0 or bool((starts.diff() < 0).any()) or num_edges > meta.num_edges:
            raise InputError(
                f"load_shards: expected {folder / 'indptr.npy'} to rise from 0 to at most {meta.num_edges} edges, got "
                f"{int(starts.min())} to {int(starts.max())}; copy the part once more"
            )
        ids = self._read(part, "edge_ids.npy", edge_id_dtype(meta.num_edges), (num_edges,))
        low, high = map(int, torch.aminmax(ids)) if num_edges else (0, 0)
        if low < 0 or high >= max(1, meta.num_edges):
            raise InputError(
                f"load_shards: expected {folder / 'edge_ids.npy'} to be in [0, {meta.num_edges}), got edge ids from "
                f"{low} to {high}; copy the part once more"
            )
        indices = self._read(part, "indices.npy", dtype_of(meta.indices), (num_edges,))
        attributes = {
            name: self._read(part, file_of("edge_attribute", name), rows.torch_dtype, (num_edges, *rows.shape))
            for name, rows in meta.edge_attrs.items()
        }
        of_nodes = {name: self._node_attribute(name, rows) for name, rows in meta.node_attrs.items()}
        try:
            return GraphShard(
                whole_indptr(meta.num_nodes, partition.owned(part), starts),
                indices,
                ids,
                attributes,
                offsets_of(meta.node_types),
                offsets_of(meta.edge_types),
                node_attrs=of_nodes,
                partition=partition,
                part=part,
                whole_num_edges=meta.num_edges,
                whole_digest=meta.digest,
            )
        except InputError as cause:
            raise InputError(f"load_shards: {folder} is damaged: {cause}; copy the part once more") from cause

    def whole(self, kind: str, name: FeatureName, feature: FeatureMeta) -> ArraySource:
        """Return a feature that every rank reads whole."""
        path = whole_folder(self._folder) / file_of(kind, name)
        rows = self._read_shared(path, feature.rows.torch_dtype, (feature.num_rows, *feature.rows.shape))
        return ArraySource(rows, f"{kind} feature {listed(name)}", digest=feature.digest, place=self._place)

    def sharded(
        self, name: FeatureName, feature: FeatureMeta, partition: Partition, part: int, asked: Tensor | None
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
            rows,
            partition,
            part,
            digest=feature.digest,
            cached=copies,
            cached_rows=copied,
            asked=asked,
            place=self._place,
        )

    def check_sizes(self) -> None:
        """Refuse files that changed their size while they were loaded, as those do that are being copied."""
        for path, size in self._sizes.items():
            try:
                now: int | None = path.stat().st_size
            except OSError:
                now = None
            if now != size:
                raise InputError(
                    f"load_shards: expected {path} to keep its {size} bytes, but it has {now or 'none'} now; wait "
                    "until the shards are copied, and load them again"
                )

    def _node_attribute(self, name: str, rows: RowsMeta) -> Tensor:
        path = whole_folder(self._folder) / file_of("node_attribute", name)
        return self._read_shared(path, rows.torch_dtype, (self.meta.num_nodes, *rows.shape))

    def _rows(self, name: FeatureName, feature: FeatureMeta, partition: Partition, part: int) -> Tensor:
        shape = (partition.sizes[part], *feature.rows.shape)
        return self._read(part, file_of("node", name), feature.rows.torch_dtype, shape)

    def _read(self, part: int, name: str, dtype: torch_dtype, shape: tuple[int, ...]) -> Tensor:
        """Read a file of a part."""
        path = part_folder(self._folder, part) / name
        array = self._array(path, dtype, shape)
        said = self._of_part(part)
        if said is not None:
            check_array(path, array, said.files.get(name))
        return array

    def _read_shared(self, path: Path, dtype: torch_dtype, shape: tuple[int, ...]) -> Tensor:
        """Read a file of all ranks."""
        array = self._array(path, dtype, shape)
        if self.meta.shared is not None:
            check_array(path, array, self.meta.shared.get(path.relative_to(self._folder).as_posix()))
        return array

    def _array(self, path: Path, dtype: torch_dtype, shape: tuple[int, ...]) -> Tensor:
        array = read_array(path, dtype, shape, memory_map=self._memory_map)
        self._sizes[path] = path.stat().st_size
        return array

    def _of_part(self, part: int) -> PartMeta | None:
        """Return what a part says of itself, once it is found to belong to ``meta.json``."""
        if self.meta.parts is not None and part not in self._parts:
            digest = self.meta.parts[part]
            self._parts[part] = PartMeta.read(part_folder(self._folder, part), part, digest)
        return self._parts.get(part)
