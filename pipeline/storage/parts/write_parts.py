"""The parts of a graph and of its features written to a folder, each as a data set of its own."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops.errors import InputError
from headrace.ops.features.gather import gather_rows
from headrace.ops.forks import cached_property
from headrace.ops.graphs.rows import edge_positions, row_starts
from headrace.ops.sampling.walk import WeightSums, weight_sums
from headrace.pipeline.data import FeatureName, Graph, Items, TypeOffsets, edge_types_of, node_types_of
from headrace.pipeline.data.file_errors import DISK_FULL
from headrace.pipeline.data.new_folder import free_bytes, new_folder
from headrace.pipeline.distributed.edge_shard import EdgeShard
from headrace.pipeline.distributed.graph_shard import check_can_be_cut, edge_id_dtype
from headrace.pipeline.partition.edge_partition import EdgePartition
from headrace.pipeline.partition.kinds import HashPartition, RangePartition
from headrace.pipeline.partition.part_owners import num_words, packed
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.storage.array_file import PIECE_BYTES
from headrace.pipeline.storage.dataset.contents import contents_of_parts
from headrace.pipeline.storage.dataset.files import ArrayFile, EdgeCutFiles, GraphFiles, PartRecord
from headrace.pipeline.storage.dataset.folder_writer import FolderWriter
from headrace.pipeline.storage.dataset.id_map import IdMap, RowNumbers
from headrace.pipeline.storage.dataset.manifest import Manifest
from headrace.pipeline.storage.dataset.write_dataset import write_feature, write_ids, write_items
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.features import FeatureStore
from headrace.pipeline.storage.json_fields import counts_of
from headrace.pipeline.storage.parts.part_set import Owners, PartFile, PartSet, checksum_of_manifest, folder_of_part
from headrace.pipeline.storage.terminal import progress_bar
from headrace.pipeline.storage.wanted import Feature

#: What such a folder holds, in messages.
WHAT = "parts of a graph"


@dataclass(frozen=True)
class Cut:
    """A graph, what belongs to it, and the owner of each node.

    Parameters
    ----------
    graph, partition, store
        A whole graph, the owners of its nodes, and features.
    whole
        Features that every rank reads whole; None for those of nodes of one number per row.
    items, ids, notes
        As of a data set.
    source
        The checksum of the manifest of the data set that is cut, if it is one.
    edges
        Where the graph is cut by edges, their owners; `partition` has the masters of nodes.
    """

    graph: Graph
    partition: Partition
    store: FeatureStore
    whole: Collection[FeatureName] | None = None
    items: Mapping[str, Items] = field(default_factory=dict)
    ids: Mapping[str, IdMap] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    edges: EdgePartition | None = None

    def __post_init__(self) -> None:
        check_can_be_cut(self.graph, self.partition, "partition")
        for name in self.whole or ():
            if name not in self.store.edge:
                self.store.node[name]  # an unknown one is refused with those that there are
        self.store.check(
            node=list(self.store.node),
            edge=list(self.store.edge),
            num_nodes=self.graph.num_nodes,
            num_edges=self.graph.num_edges,
            types=(node_types_of(self.graph), edge_types_of(self.graph)),
            stage="partition",
        )

    def is_whole(self, feature: Feature) -> bool:
        """Whether every rank reads all rows of a feature."""
        of, name = feature
        if self.whole is None:
            return of == "node" and math.prod(self.store.node[name].shape[1:]) == 1
        return name in self.whole

    @cached_property
    def out_degrees(self) -> Tensor:
        """The number of out-edges of each node, int64[num_nodes]."""
        counts = torch.zeros(self.graph.num_nodes, dtype=torch.int64, device="cpu")
        for some in self.graph.indices.split(PIECE_BYTES):  # type: ignore[no-untyped-call] # torch has none for it
            counts.index_add_(0, some, torch.ones_like(some, dtype=torch.int64))
        return counts

    @cached_property
    def weight_sums(self) -> dict[str, WeightSums]:
        """The sums along rows of attributes that may be weights: floating-point numbers, none below 0 or infinite."""
        sums = {}
        for name, rows in self.graph.edge_attrs_csc.items():
            if rows.is_floating_point() and rows.ndim == 1:
                weights = rows if rows.dtype in (torch.float32, torch.float64) else rows.float()
                with suppress(InputError):
                    sums[name] = weight_sums(self.graph.indptr, weights)
        return sums

    @property
    def features(self) -> list[Feature]:
        """All features, of nodes and of edges."""
        return [*(("node", name) for name in self.store.node), *(("edge", name) for name in self.store.edge)]

    def source_of(self, feature: Feature) -> FeatureSource:
        """Return the source of a feature."""
        of, name = feature
        return (self.store.node if of == "node" else self.store.edge).in_contract(name)

    def divided(self) -> list[Feature]:
        """Return the features of which each part has the rows of its own nodes, or of its edges."""
        return [feature for feature in self.features if not self.is_whole(feature)]

    def num_bytes(self) -> int:
        """Return the bytes of all arrays of the parts."""
        graph, kind = self.graph, kind_of(self.partition)
        num_nodes, num_edges = graph.num_nodes, graph.num_edges
        starts = 8 * (num_nodes + self.partition.num_parts)
        owners = 8 * num_words(num_nodes, self.partition.num_parts) if kind == "table" else 0
        of_edge = graph.indices.element_size() + edge_id_dtype(num_edges).itemsize
        of_edge += sum(rows[:1].numel() * rows.element_size() for rows in graph.edge_attrs_csc.values() if num_edges)
        of_nodes = sum(rows.nbytes for rows in graph.node_attrs.values())
        sources = [*self.store.node.values(), *self.store.edge.values()]
        features = sum(source.row_bytes * source.num_rows for source in sources)
        of_items = sum(
            one.nbytes for items in self.items.values() for run in runs_of(items) for one in run[1:] if one is not None
        )
        of_ids = sum(
            array.nbytes
            for ids in self.ids.values()
            if not isinstance(ids, RowNumbers)
            for array in (ids.values, ids.starts, ids.order)
            if array is not None
        )
        if self.edges is not None:
            # Positions of edges, degrees of nodes, and of each copy of one at most an id, degrees, a row and a holder.
            # Each weight has a sum before every edge, and one of each row.
            num_weights = len(self.weight_sums)
            of_edge += 8 + 8 * num_weights
            copies = int(self.edges.report(self.graph).copies.sum())
            starts += (16 + 8 * num_weights) * num_nodes + (44 + 8 * num_weights) * copies
        return starts + owners + of_edge * num_edges + of_nodes + features + of_items + of_ids


def write_parts(path: Path, cut: Cut, *, overwrite: bool, progress: bool) -> None:
    """Write the parts of a graph; `hr.Dataset.partition` documents it.

    Raises
    ------
    InputError, OSError
        As documented there.
    """
    total = cut.num_bytes()
    try:
        with (
            new_folder(path, overwrite=overwrite, contents=contents_of_parts, what=WHAT) as folder,
            progress_bar(shown=progress, total=total, desc="write parts", unit="B", unit_scale=True) as bar,
        ):
            parts = _write_shared(FolderWriter(folder, bar.update), cut).identified()
            digests = {feature: cut.source_of(feature).content_digest() for feature in cut.divided()}
            written = [_write_part(folder, bar.update, cut, parts, digests, part) for part in range(parts.num_parts)]
            replace(parts, parts=tuple(written)).write(folder)
    except OSError as cause:
        if cause.errno in DISK_FULL:
            raise _disk_full(path, total, cause) from cause
        raise


def kind_of(partition: Partition) -> str:
    """Return how the owners of a partition are told to those who open its parts."""
    return {RangePartition: "range", HashPartition: "hash"}.get(type(partition), "table")


def runs_of(items: Items) -> list[tuple[Any, Tensor, Tensor | None, Tensor | None]]:
    """Return items of a data set type by type: their ids, labels and times."""
    if not isinstance(items.ids, Mapping):
        return [(None, items.ids, items.labels, items.times)]
    return [
        (name, ids, *(None if rows is None else rows[name] for rows in (items.labels, items.times)))
        for name, ids in items.ids.items()
    ]


def _write_shared(writer: FolderWriter, cut: Cut) -> PartSet:
    """Write what all ranks read: owners in a table, node attributes, whole features, items and ids."""
    graph, partition, kind = cut.graph, cut.partition, kind_of(cut.partition)
    num_nodes, table = graph.num_nodes, None
    if kind == "table":
        words = num_words(num_nodes, partition.num_parts)
        table = writer.write(("owners",), torch.int64, (words,), packed(partition))
    whole = [feature for feature in cut.features if cut.is_whole(feature)]
    return PartSet(
        cut.source,
        partition.num_parts,
        num_nodes,
        graph.num_edges,
        counts_of(graph.node_types),
        counts_of(graph.edge_types),
        graph.content_digest(),
        Owners(kind, partition.content_digest(), table),
        None if cut.edges is None else cut.edges.num_columns,
        {name: writer.tensor(("node_attribute", name), rows) for name, rows in graph.node_attrs.items()},
        tuple(write_feature(writer, *feature, cut.source_of(feature)) for feature in whole),
        {name: tuple(write_items(writer, name, run) for run in runs_of(one)) for name, one in cut.items.items()},
        tuple(write_ids(writer, name, one) for name, one in cut.ids.items() if not isinstance(one, RowNumbers)),
        dict(cut.notes),
    )


def _write_part(
    folder: Path, written: Any, cut: Cut, parts: PartSet, digests: Mapping[Feature, str], part: int
) -> PartFile:
    """Write one part; `digests` are those of the features that are divided."""
    graph, owned = cut.graph, cut.partition.owned(part)
    path = folder / folder_of_part(part)
    path.mkdir()
    writer = FolderWriter(path, written)
    shard = None if cut.edges is None else EdgeShard.of(cut.edges, part)
    starts = row_starts(graph.indptr, owned) if shard is None else shard.indptr
    num_edges = int(starts[-1])

    def write(name: tuple[str, ...], dtype: torch_dtype, row: tuple[int, ...], pieces: Iterator[Tensor]) -> ArrayFile:
        return writer.write(name, dtype, (num_edges, *row), pieces)

    def positions() -> Iterator[Tensor]:
        if shard is not None:
            return iter(shard.positions.split(PIECE_BYTES // 8))  # type: ignore[no-untyped-call] # torch has none for it
        # Found once for each file: that is cheaper than a second part's worth of memory.
        return (piece for _, piece in edge_positions(graph.indptr, owned, starts))

    if shard is None:
        pieces = (gather_rows(graph.indices, one) for one in positions())
        sources = write(("graph", "indices"), graph.indices.dtype, (), pieces)
    else:
        sources = writer.tensor(("graph", "indices"), shard.indices)
    id_dtype = edge_id_dtype(graph.num_edges)
    files = GraphFiles(
        writer.tensor(("graph", "indptr"), starts),
        sources,
        write(("graph", "edge_ids"), id_dtype, (), (graph.original_edge_ids(one).to(id_dtype) for one in positions())),
        None,
        {
            name: write(
                ("edge_attribute", name),
                rows.dtype,
                tuple(rows.shape[1:]),
                (gather_rows(rows, one) for one in positions()),
            )
            for name, rows in graph.edge_attrs_csc.items()
        },
        {},
    )
    of_edges = _ascending(positions(), num_edges, graph) if graph.edge_types or cut.store.edge else owned[:0]
    own = {"node": (owned, node_types_of(graph)), "edge": (of_edges, edge_types_of(graph))}
    features = []
    for (of, name), digest in digests.items():
        ids, types = own[of]
        if not isinstance(name, str):
            of_type = types.id_range(name[0])
            low, high = torch.searchsorted(ids, torch.tensor([of_type.start, of_type.stop], device="cpu")).tolist()
            ids = ids[low:high] - of_type.start
        features.append(replace(write_feature(writer, of, name, cut.source_of((of, name)), ids), digest=digest))
    record = PartRecord(
        parts.identity,
        part,
        parts.num_parts,
        len(owned),
        _counts_of_types(owned, graph.node_types),
        num_edges,
        _counts_of_types(of_edges, graph.edge_types),
        None if shard is None else _write_ends(writer, cut, shard),
    )
    sizes = parts.num_nodes, parts.num_edges, parts.node_types, parts.edge_types
    Manifest(*sizes, files, tuple(features), {}, (), {}, record).write(path)
    return PartFile(path.name, checksum_of_manifest(path), len(owned), num_edges)


def _write_ends(writer: FolderWriter, cut: Cut, shard: EdgeShard) -> EdgeCutFiles:
    """Write what a part that is cut by edges has beside them."""
    indptr, num_edges = cut.graph.indptr, len(shard.positions)
    ends = torch.unique(torch.cat([shard.nodes, shard.indices.long()]))
    others = ends[shard.masters.owner(ends) != shard.part]
    at_hand = torch.cat([shard.masters.owned(shard.part), others])
    arrays = {
        "nodes": shard.nodes,
        "first_positions": indptr[shard.nodes],
        "positions": shard.positions,
        "others": others,
        "in_degrees": indptr[at_hand + 1] - indptr[at_hand],
        "out_degrees": cut.out_degrees[at_hand],
        "holders_indptr": shard.holders_indptr,
        "holders": shard.holders,
    }
    starts = indptr[shard.nodes].repeat_interleave(shard.indptr.diff())
    pieces = [one.split(PIECE_BYTES // 8) for one in (starts, shard.positions)]  # type: ignore[no-untyped-call] # torch has none for it
    return EdgeCutFiles(
        **{name: writer.tensor(("cut", name), array) for name, array in arrays.items()},
        sums_before={
            name: writer.write(("cut", "sums_before", name), torch.float64, (num_edges,), map(sums.before, *pieces))
            for name, sums in cut.weight_sums.items()
        },
        row_sums={
            name: writer.tensor(("cut", "row_sums", name), sums.of_rows(indptr, at_hand))
            for name, sums in cut.weight_sums.items()
        },
    )


def _ascending(positions: Iterator[Tensor], num_edges: int, graph: Graph) -> Tensor:
    """Return the ids of edges by their positions, int64[num_edges] ascending."""
    ids = torch.empty(num_edges, dtype=torch.int64, device="cpu")
    start = 0
    for piece in positions:
        ids[start : start + len(piece)] = graph.original_edge_ids(piece)
        start += len(piece)
    if graph.edge_permutation is not None:
        ids.numpy().sort()  # in place, as parts are large
    return ids


def _counts_of_types(ids: Tensor, types: TypeOffsets | None) -> tuple[int, ...] | None:
    """Return how many of some ids, int64[n] ascending, are of each type."""
    return None if types is None else tuple(torch.searchsorted(ids, types.offsets).diff().tolist())


def _disk_full(path: Path, total: int, cause: OSError) -> OSError:
    free = free_bytes(path)  # the draft is gone by now
    return OSError(
        cause.errno,
        f"partition: expected room for {total:,} bytes, but the disk is full ({cause.strerror}; {free:,} bytes "
        "are free without them); make room, or name a folder on another disk",
        str(path),
    )
