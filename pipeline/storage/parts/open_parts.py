"""One rank's part of a graph on disk, opened with what every rank reads whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.features.gather import empty_rows, gather_rows
from headrace.ops.memory_limit import check_fits_memory
from headrace.pipeline.data import CPU, DISK, FeatureName, TypeOffsets, whole_number
from headrace.pipeline.distributed.edge_part import EdgePart
from headrace.pipeline.distributed.graph_shard import GraphShard, edge_id_dtype
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.partition.kinds import HashPartition, RangePartition
from headrace.pipeline.partition.part_owners import Owning, PackedOwners, PartOwners, counts_of_owners, owned_by
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.dataset.contents import MANIFEST, PART_SET, PARTS
from headrace.pipeline.storage.dataset.dataset import Part
from headrace.pipeline.storage.dataset.decode import replaced
from headrace.pipeline.storage.dataset.files import ArrayFile, FeatureFile
from headrace.pipeline.storage.dataset.manifest import Manifest, read_manifest
from headrace.pipeline.storage.dataset.reader import Reader, read_features
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.json_fields import offsets_of
from headrace.pipeline.storage.part_rows import nodes_to_copy, owners_of_rows
from headrace.pipeline.storage.parts.part_set import AGAIN, PartSet, checksum_of_manifest, folder_of_part
from headrace.pipeline.storage.quantized_feature import with_scale
from headrace.pipeline.storage.sharded_feature import ShardedFeature


class OpenedPart(NamedTuple):
    """A part, and the manifest of it and of what every rank reads whole, with the files of both below one folder.

    The checksum is that of the part's own manifest.
    """

    manifest: Manifest
    reader: Reader
    graph: GraphShard | EdgePart
    store: FeatureStore
    part: Part
    checksum: str


def may_hold_parts(folder: Path) -> bool:
    """Whether a folder is one of parts, also where the file that describes it is missing or is no file."""
    if os.path.lexists(folder / PART_SET):
        return True
    is_other = os.path.lexists(folder / MANIFEST) or not os.path.isdir(folder)  # noqa: PTH112 - of names of any length
    return not is_other and any(folder.glob(f"part-*/{MANIFEST}"))


def open_part(folder: Path, rank: int | None, *, memory_map: bool, cached: Mapping[FeatureName, Any]) -> OpenedPart:
    """Open one part of a folder of parts; `hr.open_dataset` documents it.

    Raises
    ------
    InputError
        As of `hr.open_dataset`.
    """
    parts = PartSet.read(folder)
    _check_source(folder, parts)
    number = _number(folder, parts, rank)
    own = _read_part(folder, parts, number)
    reader = Reader(folder, memory_map=memory_map, compare=True)
    partition = _owners(folder, parts, reader, number)
    types = offsets_of(parts.node_types), offsets_of(parts.edge_types)
    graph = _graph(folder, parts, own, reader, partition, types)
    features = read_features(reader, parts.features)
    owners = {one.key: owners_of_rows(one.key, partition, types[0]) for one in own.features if one.of == "node"}
    for name in cached:
        if name not in owners:
            in_shards = sorted(owners, key=str)
            raise InputError(
                f"open_dataset: expected cached to name node features in shards, {in_shards or 'none'}, got {name!r}"
            )
    asked = {name: nodes_to_copy(ids, owners[name]) for name, ids in cached.items()}
    others = _Others(folder, parts, reader)
    for one in own.features:
        rows, copies = reader.needed_tensor(one.rows), asked.get(one.key) if one.of == "node" else None
        divided = owners[one.key] if one.of == "node" else _edges(folder, one, graph, types[1])
        source = _sharded(rows, one, divided, number, copies, others, on_disk=memory_map)
        features[one.of][one.key] = with_scale(source, one.quantization)
    merged = replace(
        own,
        graph=replace(own.graph, node_attrs=parts.node_attrs),
        features=(*own.features, *parts.features),
        items=parts.items,
        ids=parts.ids,
        notes=parts.notes,
    )
    part = Part(number, partition, parts.identity)
    store = FeatureStore(features["node"], features["edge"])
    return OpenedPart(merged, reader, graph, store, part, parts.parts[number].sha256)


def _number(folder: Path, parts: PartSet, rank: int | None) -> int:
    """Return which part to open."""
    if rank is None:
        rank, world_size = rank_of_process(None, None)
        if world_size != parts.num_parts:
            ranks = "one rank" if world_size == 1 else f"{world_size} ranks"
            raise InputError(
                f"open_dataset: expected as many ranks as there are parts in {folder}, {parts.num_parts}, got {ranks}; "
                f"cut it again, `headrace partition FOLDER OUT --parts {world_size}{parts.cut_option}`, or name a "
                "part, rank=0"
            )
    return whole_number(rank, f"open_dataset: rank, of the parts in {folder}", 0, InputError, parts.num_parts - 1)


def _check_source(folder: Path, parts: PartSet) -> None:
    """Refuse parts inside a data set that was replaced since they were cut."""
    data = folder.parent.parent
    if folder.parent.name != PARTS or parts.source is None or not (data / MANIFEST).is_file():
        return
    if checksum_of_manifest(data) != parts.source:
        raise InputError(
            f"open_dataset: expected in {folder} parts of the data set {data}, got those of another one, or of one "
            f"that was replaced since; cut it again, `headrace partition {data} --parts {parts.num_parts}"
            f"{parts.cut_option}`"
        )


def _read_part(folder: Path, parts: PartSet, number: int) -> Manifest:
    """Return the manifest of a part, with its files by their paths in the folder of all parts.

    Raises
    ------
    InputError
        If it is missing, of another part, or of another cut.
    """
    name = folder_of_part(number)
    path = folder / name
    if not os.path.lexists(path / MANIFEST):
        raise InputError(
            f"open_dataset: expected part {number}, that of rank {number}, but there is no {path / MANIFEST}; copy the "
            "part there, or name one that is there, rank="
        )
    own, checksum = read_manifest(path)
    if own.part is None:
        raise InputError(f"open_dataset: expected part {number} in {path}, got a data set; {AGAIN}")
    if own.part.part != number:
        raise InputError(
            f"open_dataset: expected part {number} in {path}, got part {own.part.part}; copy each part to the folder "
            "of its own number"
        )
    stated = parts.parts[number]
    if checksum != stated.sha256:
        raise InputError(
            f"open_dataset: expected {path / MANIFEST} to be of the cut {parts.identity[:8]} as {PART_SET} is, got "
            f"that of another, {own.part.identity[:8]}, or a changed one; {AGAIN}"
        )
    sizes = parts.num_parts, parts.num_nodes, parts.num_edges, stated.num_own, stated.num_edges
    sizes_of_part = own.part.num_parts, own.num_nodes, own.num_edges, own.part.num_own, own.part.num_edges
    types, types_of_part = (parts.node_types, parts.edge_types), (own.node_types, own.edge_types)
    kinds_differ = (parts.num_columns is None) != (own.part.by_edges is None)
    if kinds_differ or (parts.identity, sizes, types) != (own.part.identity, sizes_of_part, types_of_part):
        raise InputError(f"open_dataset: expected {path / MANIFEST} to have the sizes and types of {PART_SET}; {AGAIN}")
    moved: Manifest = replaced(own, ArrayFile, partial(_below, name))
    return moved


def _below(folder: str, array: ArrayFile) -> ArrayFile:
    return replace(array, file=f"{folder}/{array.file}")


def _owners(folder: Path, parts: PartSet, reader: Reader, number: int) -> Partition:
    """Return the owner of each node, as far as the sizes of the parts do not contradict it."""
    check_fits_memory(
        parts.num_nodes // 6,
        f"open_dataset: {folder / PART_SET} asks for {parts.num_nodes} nodes, and a bit for each",
        AGAIN,
    )
    sizes = [part.num_own for part in parts.parts]
    if parts.owners.table is not None:
        owners: Owning = PackedOwners(reader.needed_tensor(parts.owners.table), parts.num_parts)
        counts = counts_of_owners(owners, parts.num_nodes, parts.num_parts).tolist()
        if counts != sizes:
            path = folder / parts.owners.table.file
            raise InputError(
                f"open_dataset: {path} is damaged: expected {sizes[number]} nodes of part {number}, and as many of the "
                f"others as {PART_SET} has, got {counts[number]}; copy it once more"
            )
        own = owned_by(owners, parts.num_nodes, number)
    elif parts.owners.kind == "range":
        owners = RangePartition(sizes)
        own = owners.owned(number)
    # Hashing more nodes than there can be takes hours; a part of a hash is never that far from its share.
    elif parts.num_nodes > 2 * parts.num_parts * (sizes[number] + 64):
        raise InputError(
            f"open_dataset: expected about {parts.num_nodes // parts.num_parts} of {parts.num_nodes} nodes in part "
            f"{number} of {folder}, got {sizes[number]}; {AGAIN}"
        )
    else:
        owners = HashPartition(parts.num_nodes, parts.num_parts)
        own = owners.owned(number)
    if len(own) != sizes[number]:
        raise InputError(
            f"open_dataset: expected {sizes[number]} nodes of part {number} by the owners in {folder}, got {len(own)}; "
            f"{AGAIN}"
        )
    return PartOwners(owners, number, own, sizes, parts.owners.digest)


def _graph(
    folder: Path,
    parts: PartSet,
    own: Manifest,
    reader: Reader,
    partition: Partition,
    types: tuple[TypeOffsets | None, TypeOffsets | None],
) -> GraphShard | EdgePart:
    """Return the in-edges of the nodes that a part owns, or the edges that it owns."""
    assert own.part is not None  # as it was read
    files, number, num_edges = own.graph, own.part.part, own.part.num_edges
    starts = reader.needed_tensor(files.indptr)
    if int(starts[0]) != 0 or bool((starts.diff() < 0).any()) or int(starts[-1]) != num_edges:
        raise InputError(
            f"open_dataset: expected {folder / files.indptr.file} to rise from 0 to {num_edges} edges, got "
            f"{int(starts.min())} to {int(starts.max())}; copy the part once more"
        )
    if files.edge_ids is None or files.edge_ids.torch_dtype != edge_id_dtype(parts.num_edges):
        raise InputError(
            f"open_dataset: expected edge ids of {edge_id_dtype(parts.num_edges)} in part {number} of {folder}, got "
            f"{None if files.edge_ids is None else files.edge_ids.dtype}; copy the part once more"
        )
    ids = reader.needed_tensor(files.edge_ids)
    low, high = map(int, torch.aminmax(ids)) if num_edges else (0, 0)
    if low < 0 or high >= max(1, parts.num_edges):
        raise InputError(
            f"open_dataset: expected {folder / files.edge_ids.file} to be in [0, {parts.num_edges}), got edge ids from "
            f"{low} to {high}; copy the part once more"
        )
    indices = reader.needed_tensor(files.indices)
    of_edges = {name: reader.needed_tensor(array) for name, array in files.edge_attrs.items()}
    of_nodes = {name: reader.needed_tensor(array) for name, array in parts.node_attrs.items()}
    by_edges = {} if own.part.by_edges is None else vars(replaced(own.part.by_edges, ArrayFile, reader.needed_tensor))
    try:
        if parts.num_columns is not None:
            return EdgePart(
                masters=partition,
                part=number,
                indptr=starts,
                indices=indices,
                edge_ids=ids,
                edge_attrs_csc=of_edges,
                num_columns=parts.num_columns,
                num_edges=parts.num_edges,
                node_types=types[0],
                edge_types=types[1],
                node_attrs=of_nodes,
                whole_digest=parts.graph_digest,
                **by_edges,
            )
        return GraphShard(
            starts,
            indices,
            ids,
            of_edges,
            *types,
            node_attrs=of_nodes,
            own_nodes=partition.owned(number),
            partition=partition,
            part=number,
            whole_num_edges=parts.num_edges,
            whole_digest=parts.graph_digest,
        )
    except InputError as cause:
        path = folder / folder_of_part(number)
        raise InputError(f"open_dataset: {path} is damaged: {cause}; copy the part once more") from cause


def _edges(folder: Path, feature: FeatureFile, graph: GraphShard | EdgePart, types: TypeOffsets | None) -> Partition:
    """Return the edges of a part that have rows of a feature there."""
    try:
        return owners_of_rows(feature.key, graph.edges, types)
    except InputError as cause:  # of ids that come twice
        path = folder / folder_of_part(graph.part)
        raise InputError(f"open_dataset: {path} is damaged: edge ids: {cause}; copy the part once more") from cause


class _Others:
    """The rows of other parts, of which some are copied."""

    def __init__(self, folder: Path, parts: PartSet, reader: Reader) -> None:
        self._folder, self._parts, self._reader = folder, parts, reader
        self._read: dict[int, Manifest] = {}

    def rows(self, part: int, name: FeatureName) -> Tensor:
        """Return the rows of a feature that a part owns."""
        if part not in self._read:
            self._read[part] = _read_part(self._folder, self._parts, part)
        own = [one for one in self._read[part].features if one.key == name]
        if not own:
            raise InputError(
                f"open_dataset: expected rows of node feature {name!r} in {self._folder / folder_of_part(part)}, got "
                f"none; {AGAIN}"
            )
        return self._reader.needed_tensor(own[0].rows)


def _sharded(
    rows: Tensor,
    feature: FeatureFile,
    partition: Partition,
    number: int,
    asked: Tensor | None,
    others: _Others,
    *,
    on_disk: bool,
) -> ShardedFeature:
    """Return the rows that a part owns of a node feature, and copies of those of others that are asked for."""
    copies = copied = None
    if asked is not None:
        owners = partition.owner(asked)
        copies, owners = asked[owners != number], owners[owners != number]
        copied = empty_rows((len(copies), *rows.shape[1:]), rows.dtype)
        for owner in torch.unique(owners).tolist():
            chosen = (owners == owner).nonzero().reshape(-1)
            theirs = others.rows(owner, feature.key)
            if (theirs.dtype, theirs.shape[1:]) != (rows.dtype, rows.shape[1:]):
                raise InputError(
                    f"open_dataset: expected rows of {feature.key!r} alike in all parts, got others; {AGAIN}"
                )
            places = torch.searchsorted(partition.owned(owner), copies[chosen])
            copied[chosen] = gather_rows(theirs, places)
    return ShardedFeature(
        rows,
        partition,
        number,
        digest=feature.digest,
        cached=copies,
        cached_rows=copied,
        asked=asked,
        place=DISK if on_disk else CPU,
    )
