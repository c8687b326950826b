"""Feature rows of which each rank holds those of the nodes that it owns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch import dtype as torch_dtype

from headrace.ops import InputError, gather_rows
from headrace.ops.features.pinned import is_readable_in_place
from headrace.pipeline.data.arrays import (
    as_cpu_tensor,
    check_kind,
    refuse_gradient,
    version_of_tensor,
    version_reader,
    whole_number,
)
from headrace.pipeline.data.digest import content_mark, sampled_digest
from headrace.pipeline.data.place import CPU, Place
from headrace.pipeline.data.seen import STRUCTURE_BELOW_BYTES, WHOLE_BELOW_BYTES
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.partition.kinds import TypePartition
from headrace.pipeline.partition.node_owners import num_owned
from headrace.pipeline.partition.part_owners import PartEdges
from headrace.pipeline.partition.partition import Partition
from headrace.pipeline.partition.router import RankRouter
from headrace.pipeline.storage.feature_source import FeatureSource
from headrace.pipeline.storage.part_rows import check_cached, check_knows, edges_of_part, nodes_to_copy
from headrace.pipeline.storage.rows import Rows, add_counts, check_to, read_by_writing
from headrace.pipeline.storage.shard_on_gpu import ShardOnGpu, elsewhere_at


class ShardedFeature(FeatureSource):
    """A feature source with rows at their owners, and copies of some rows of other ranks.

    ``fetch_feature`` gets the rows of a batch in two rounds: ranks send the ids to their owners, and owners send the
    rows back. Rows with a copy on this rank are not exchanged; ``loader.stats()`` counts them as ``copied_rows``.
    :meth:`of` takes the rows of one rank from a whole array. Rows of a type are divided by the owners of its nodes, and
    all ids are those within the type:

    >>> import torch
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1], [2, 3], node_types={"author": 2, "paper": 2})
    >>> papers = hr.Partition.range_of([3, 1]).of_type(graph.node_types, "paper")
    >>> x = hr.ShardedFeature.of(torch.tensor([[7.0], [8.0]]), papers, 1)
    >>> store = hr.FeatureStore(node={"paper": {"x": x}})
    >>> store.node["paper", "x"].read(papers.owned(1)).rows.tolist()
    [[8.0]]

    Rows of an edge are at the owner of its destination, and a part of the graph knows which these are:

    >>> part = graph.shard(hr.Partition.range_of([3, 1]), 1)
    >>> weights = hr.ShardedFeature.of(torch.tensor([0.5, 0.25]), part.edges)
    >>> weights.read(part.edges.owned(1)).rows.tolist()
    [0.25]

    Parameters
    ----------
    rows: [num_owned, ...]
        The rows of ``partition.owned(part)``, in that order. They are kept by reference.
    partition
        The owner of each node; of a feature of a type that of its nodes, `Partition.of_type`. Of edges those of a part,
        ``graph.shard(partition, part).edges``.
    part
        Whose rows these are.
    digest
        A fingerprint of the rows of all ranks, the same on each; by default only their shape and dtype, so that
        checkpoints do not detect other rows.
    cached, cached_rows: int64[num_cached] and [num_cached, ...]
        Nodes of other ranks, and copies of their rows, usually those read most often (high out-degree).
    asked: int64[n], optional
        The nodes whose copies every rank should hold, the same on each rank, ascending. Features with equal `asked` are
        exchanged together; without it, a feature with copies is exchanged alone.
    place
        The place of `rows`: CPU memory, or the disk for rows of a mapped file.

    Raises
    ------
    InputError
        For a wrong number of rows, or rows that differ in shape or dtype.
    """

    def __init__(
        self,
        rows: ArrayLike | Tensor,
        partition: Partition,
        part: int,
        *,
        digest: str | None = None,
        cached: Tensor | None = None,
        cached_rows: ArrayLike | Tensor | None = None,
        asked: Tensor | None = None,
        place: Place = CPU,
    ) -> None:
        refuse_gradient(rows, "rows")
        _check_partition(partition, "ShardedFeature")
        advice = "write hr.Place.parse('cpu')"
        check_kind(place, Place, "ShardedFeature: expected place to be an hr.Place", advice, InputError)
        self._rows = as_cpu_tensor(rows, "rows")
        self._partition = partition
        self._part = whole_number(part, "ShardedFeature: part", 0, InputError, partition.num_parts - 1)
        check_knows(partition, self._part)
        num_rows = num_owned(partition, self._part)
        if self._rows.dim() == 0 or len(self._rows) != num_rows:
            raise InputError(
                f"ShardedFeature: expected rows of the {num_rows} nodes that part {part} owns, got shape "
                f"{list(self._rows.shape)}; give the rows of partition.owned(part)"
            )
        self._cached = torch.empty(0, dtype=torch.int64, device="cpu")
        self._cached_rows = self._rows[:0]
        if (cached is None) != (cached_rows is None):
            raise InputError("ShardedFeature: expected cached and cached_rows together, got one of them")
        if cached is not None and cached_rows is not None:
            check_cached(cached, partition, self._part)
            copies = as_cpu_tensor(cached_rows, "cached_rows")
            if copies.dtype != self._rows.dtype or copies.shape != (len(cached), *self._rows.shape[1:]):
                raise InputError(
                    f"ShardedFeature: expected cached_rows {self._rows.dtype}{[len(cached), *self._rows.shape[1:]]}, "
                    f"got {copies.dtype}{list(copies.shape)}"
                )
            self._cached, order = torch.sort(cached.to(torch.int64))
            self._cached_rows = gather_rows(copies, order)
        self._router = RankRouter(partition, self._part, self._cached)
        self._nodes, whole = range(partition.num_nodes), partition
        if isinstance(partition, TypePartition):
            self._nodes, whole = partition.nodes, partition.whole
        self._batch_router = RankRouter(whole, self._part, self._cached + self._nodes.start)
        self._counter = f"bytes_from_{place.kind}"
        self._digest = digest
        # Not which copies this rank has: plans must not differ from rank to rank.
        self._asked = torch.empty(0, dtype=torch.int64, device="cpu") if cached is None else asked
        self._copied = self._asked is None or len(self._asked) > 0  # whether ranks hold copies of others' rows
        self._seen = self.version  # of the rows of which others hold copies
        self._whole_below = WHOLE_BELOW_BYTES if place == CPU else STRUCTURE_BELOW_BYTES
        self._mark = self.content_mark() if self._copied else None
        self._on_gpu: ShardOnGpu | None = None

    @staticmethod
    def of(
        array: ArrayLike | Tensor,
        partition: Partition,
        part: int | None = None,
        *,
        cached: ArrayLike | Tensor | None = None,
    ) -> ShardedFeature:
        """Take one rank's rows from an array of all rows, such as a memory map.

        Parameters
        ----------
        array: [num_nodes, ...]
            All rows; of edges in input order.
        partition
            The owner of each node; of a feature of a type that of its nodes, `Partition.of_type`. Of edges those of a
            part, ``graph.shard(partition, part).edges``, or of a type of these.
        part
            Whose rows to take; by default those of this process in torch.distributed, or of that part.
        cached: integer[n], optional
            Nodes whose rows to copy; nodes of this part are left out.

        Raises
        ------
        InputError
            If the array does not have one row per node, or `cached` has ids that are not nodes.
        """
        refuse_gradient(array, "array")
        _check_partition(partition, "ShardedFeature.of")
        whole = as_cpu_tensor(array, "array")
        if whole.dim() == 0 or len(whole) != partition.num_nodes:
            raise InputError(
                f"ShardedFeature.of: expected a row for each of {partition.num_nodes} nodes, got {list(whole.shape)}"
            )
        of_part = edges_of_part(partition)
        if part is None:
            part = rank_of_process(None, None)[0] if of_part is None else of_part.part
        part = whole_number(part, "ShardedFeature.of: part", 0, InputError, partition.num_parts - 1)
        asked = None if cached is None else nodes_to_copy(cached, partition)
        ids = (
            torch.empty(0, dtype=torch.int64, device="cpu") if asked is None else asked[partition.owner(asked) != part]
        )
        return ShardedFeature(
            gather_rows(whole, partition.owned(part)),
            partition,
            part,
            digest=sampled_digest([("rows", whole)]),
            cached=None if asked is None else ids,
            cached_rows=None if asked is None else gather_rows(whole, ids),
            asked=asked,
        )

    @property
    def router(self) -> RankRouter:
        """The source of the row of each node of a batch: its owner, or this rank if it has a copy.

        Ids are those in the id space of all types, also for a feature of a type.
        """
        return self._batch_router

    @property
    def owners(self) -> Partition:
        """The owners of the nodes by which rows were divided, those of edges by their destinations."""
        whole = self._batch_router.partition
        return whole.nodes if isinstance(whole, PartEdges) else whole

    @property
    def edges(self) -> PartEdges | None:
        """The edges by whose destinations rows were divided; None for rows of nodes."""
        return edges_of_part(self._partition)

    @property
    def nodes(self) -> range:
        """The nodes with a row, or the edges, on any rank, by their ids in the id space of all types."""
        return self._nodes

    def lies_as(self, other: ShardedFeature) -> bool:
        """Return whether the rows of another feature are at the same owners, with copies of the same ones.

        The result is the same on every rank. It is true for features of different types if none has copies.
        """
        mine, theirs = self.router.partition, other.router.partition
        same_owners = mine is theirs or mine == theirs
        return same_owners and self._part == other._part and self._same_copies(other)

    def _same_copies(self, other: ShardedFeature) -> bool:
        if self._asked is None or other._asked is None:
            return False
        return torch.equal(self._asked + self._nodes.start, other._asked + other._nodes.start)

    @property
    def part(self) -> int:
        """Whose rows these are."""
        return self._part

    @property
    def partition(self) -> Partition:
        """The owner of each node."""
        return self._partition

    @property
    def version(self) -> int | None:
        """The number of writes by torch to this rank's rows in place."""
        return version_of_tensor(self._rows)

    def version_reader(self) -> Callable[[], int] | None:
        """Return a faster function for `version`; None if torch does not count writes."""
        return version_reader(self._rows)

    @property
    def num_rows(self) -> int:
        """Return the number of rows of all ranks together."""
        return self._partition.num_nodes

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one row."""
        return math.prod(self._rows.shape[1:]) * self._rows.element_size()

    @property
    def dtype(self) -> torch_dtype:
        """Return the element type."""
        return self._rows.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of all ranks' rows, num_rows first."""
        return (self.num_rows, *self._rows.shape[1:])

    def read(self, ids: Tensor, *, num_threads: int = 1, to: Place = CPU) -> Rows:
        """Return the rows of `ids`, as [num_ids, ...]; this rank must own or have copies of all of them.

        A GPU reads rows in memory of this rank in place, for ids that it has.

        Raises
        ------
        InputError
            If another rank owns one of them: only a loader can request rows from owners. Also for a place that rows
            are not read to.
        """
        if to is CPU or not self.reads_to(to) or to == CPU:
            return read_by_writing(self, ids, num_threads=num_threads, to=to)
        self._check_unwritten()
        self.prepare(to)
        assert self._on_gpu is not None  # prepared just now
        return self._on_gpu.read(ids, self._router.locate(ids.to(torch.int64)))

    def reads_to(self, place: Place) -> bool:
        """Return whether rows can be read to a place: CPU memory, or a GPU where they are in memory, in one piece."""
        if not isinstance(place, Place):
            check_to(self, place)  # refuses it
        in_memory = self._counter == "bytes_from_cpu" and is_readable_in_place(self._rows)
        return place == CPU or (place.kind == "cuda" and in_memory)

    def prepare(self, place: Place) -> None:
        """Pin the rows for reads to a GPU, for the lifetime of the source, or raise HeadraceError."""
        if place != CPU and (self._on_gpu is None or self._on_gpu.moved()):
            self._on_gpu = ShardOnGpu(self._rows, self._cached_rows, self._part, self._partition.num_parts)

    def read_into(
        self, ids: Tensor, out: Tensor, *, places: Tensor | None = None, num_threads: int = 1
    ) -> Mapping[str, int]:
        """Write the rows of `ids` to the rows `places` of `out`; see `FeatureSource`.

        Raises
        ------
        InputError
            As of `read`, for an `out` of another shape or dtype, and for places that it does not have.
        """
        self._check_unwritten()
        ids = ids.to(torch.int64)
        if self._partition.num_parts == 1:
            gather_rows(self._rows, ids, out=out, places=places, num_threads=num_threads)
            return {self._counter: len(ids) * self.row_bytes}
        found = self._router.locate(ids)
        is_own, is_copy = found.place == self._part, found.place == self._partition.num_parts
        elsewhere = ~(is_own | is_copy)
        if bool(elsewhere.any()):
            first = int(elsewhere.nonzero()[0])
            raise elsewhere_at(int(ids[first]), int(found.place[first]), self._part)
        num_copies = int(is_copy.sum())
        if not num_copies:
            gather_rows(self._rows, found.row, out=out, places=places, num_threads=num_threads)
            return {self._counter: len(ids) * self.row_bytes}
        places = torch.arange(len(ids), device="cpu") if places is None else places
        for rows, chosen in ((self._rows, is_own), (self._cached_rows, is_copy)):
            gather_rows(rows, found.row[chosen], out=out, places=places[chosen], num_threads=num_threads)
        counts = {self._counter: (len(ids) - num_copies) * self.row_bytes}
        add_counts(counts, {"bytes_from_cpu": num_copies * self.row_bytes})
        return counts

    def _check_unwritten(self) -> None:
        if self._copied and self.version != self._seen:
            raise _written()

    def content_mark(self) -> str:
        """Return a string that differs when the rows of this rank were written; large ones are sampled."""
        return content_mark(self._rows, self._whole_below)

    def check_copies(self) -> None:
        """Refuse rows of which other ranks hold copies, and that were written since, as an iteration begins.

        Raises
        ------
        InputError
            If they were.
        """
        if self._copied and (self.version != self._seen or self.content_mark() != self._mark):
            raise _written()

    def content_digest(self) -> str:
        """Return the fingerprint."""
        return f"rows {self.shape} {self.dtype}" if self._digest is None else self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ShardedFeature):
            return NotImplemented
        return self is other or (
            self._part == other._part and self._partition == other._partition and torch.equal(self._rows, other._rows)
        )

    def __hash__(self) -> int:
        return hash(self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_on_gpu": None, "_seen": self.version == self._seen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._seen = self.version if state["_seen"] else None  # a copy counts writes from its own beginning

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{str(self.dtype).removeprefix('torch.')}[{shape}] in {self._partition.num_parts} shards"


def _written() -> InputError:
    return InputError(
        "ShardedFeature: expected rows of which other ranks hold copies to stay as they were, got rows that were "
        "written since; make the ShardedFeature anew, or without cached=, so that owners are asked"
    )


def _check_partition(partition: object, function: str) -> None:
    advice = "pass that by which the rows were cut"
    check_kind(partition, Partition, f"{function}: expected partition to be an hr.Partition", advice, InputError)
