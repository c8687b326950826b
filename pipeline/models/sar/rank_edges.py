"""All that a rank knows of its edges: shards, ids, degrees."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headrace.ops.errors import InputError
from headrace.ops.forks import cached_property
from headrace.ops.text import utf8
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_part import EdgePart
from headrace.pipeline.distributed.graph_shard import GraphShard, shard
from headrace.pipeline.models.sar.derived import with_loops
from headrace.pipeline.models.sar.rounds import Mode, Rounds
from headrace.pipeline.models.sar.shard import Shard, cut
from headrace.pipeline.models.sar.transfer import Counts, Transfer
from headrace.pipeline.partition.partition import Partition


@dataclass(frozen=True, eq=False, repr=False)
class RankEdges:
    """The in-edges of the nodes that a rank owns.

    Parameters
    ----------
    owned: int64[num_owned]
        The nodes, ascending.
    rounds
        Their in-edges in shards.
    destinations: int64[num_edges]
        The row that each edge leads to.
    edge_ids: int64[num_edges]
    in_degrees, out_degrees: int64[num_owned]
        In the whole graph.
    num_nodes, num_all_edges
        Of the whole graph.
    each_has_edges
        Whether every node of the whole graph has an in-edge.
    edge_attrs
        Rows in the order of `edge_ids`.
    replaced: int64[n], optional
        Entries that are no edges any more: of loops that others have replaced, once or several times.
    """

    owned: Tensor
    rounds: Rounds
    destinations: Tensor
    edge_ids: Tensor
    in_degrees: Tensor
    out_degrees: Tensor
    num_nodes: int
    num_all_edges: int
    each_has_edges: bool
    edge_attrs: Mapping[str, Tensor] = field(default_factory=dict)
    replaced: Tensor | None = None

    @staticmethod
    def of(part: GraphShard, comm: Comm | None, mode: Mode, prefetch: int, counts: Counts) -> RankEdges:
        """Cut a part of a graph into shards, and agree with the other ranks on who needs which rows.

        Raises
        ------
        InputError
            If ranks say different things.
        """
        with nullcontext() if comm is None else comm.doing("the making of a ShardedGraph"):
            return RankEdges._of(part, comm, mode, prefetch, counts)

    @staticmethod
    def _of(part: GraphShard, comm: Comm | None, mode: Mode, prefetch: int, counts: Counts) -> RankEdges:
        rank = part.part
        if comm is not None:
            words = f"{part!r} of {part.content_digest()}, {part.partition.content_digest()}, {mode}, {prefetch}"
            check_same(comm, words, "ShardedGraph: expected one graph, partition, mode and prefetch on all ranks")
        shards, wanted = cut(part)
        owned = part.own_nodes
        sends = exchange_wanted(wanted, part.partition, len(owned), comm)
        receives = tuple(shard.num_sources for shard in shards)
        gathered = [len(rows) for rows in sends if rows is not None]
        most = [max(gathered, default=0), max(receives)]
        most_gathered, most_rows = most if comm is None else [max(comm.all_gather(number)) for number in most]
        transfer = Transfer(comm, rank, sends, len(owned), receives, prefetch > 0, most_rows, most_gathered, counts)
        in_degrees = part.indptr.diff()
        num_without = int((in_degrees == 0).sum())
        each_has_edges = not any([num_without] if comm is None else comm.all_gather(num_without))
        return RankEdges(
            owned,
            Rounds(shards, transfer, len(owned), part.num_local_edges, mode, prefetch),
            torch.arange(len(owned), device="cpu").repeat_interleave(in_degrees),
            part.edge_ids.long(),
            in_degrees,
            count_out_degrees(shards, sends, len(owned), comm),
            part.num_nodes,
            part.num_edges,
            each_has_edges,
            part.edge_attrs_csc,
        )

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> RankEdges:
        """Return the edges with a function applied to their tensors."""
        transfer = self.rounds.transfer
        sends = tuple(None if rows is None else of_tensor(rows) for rows in transfer.sends)
        shards = tuple(shard.map(of_tensor) for shard in self.rounds.shards)
        transfer = dataclasses.replace(transfer, sends=sends)
        return dataclasses.replace(
            self,
            owned=of_tensor(self.owned),
            rounds=dataclasses.replace(self.rounds, shards=shards, transfer=transfer),
            destinations=of_tensor(self.destinations),
            edge_ids=of_tensor(self.edge_ids),
            in_degrees=of_tensor(self.in_degrees),
            out_degrees=of_tensor(self.out_degrees),
            edge_attrs={name: of_tensor(rows) for name, rows in self.edge_attrs.items()},
            replaced=None if self.replaced is None else of_tensor(self.replaced),
        )

    @cached_property
    def loops(self) -> Tensor:
        """The positions of edges from a node to itself, ascending: int64[n]."""
        own = self.rounds.own
        return own.positions[own.indices == own.destinations].long()

    def with_loops(self) -> RankEdges:
        """Return the edges with one loop for each node in place of those that there are."""
        number, loops = len(self.owned), self.loops
        gone = torch.bincount(self.destinations[loops], minlength=number)
        return dataclasses.replace(
            self,
            rounds=with_loops(self.rounds),
            destinations=torch.cat([self.destinations, torch.arange(number, device=self.owned.device)]),
            edge_ids=torch.cat([self.edge_ids, self.num_all_edges + self.owned]),
            in_degrees=self.in_degrees - gone + 1,
            out_degrees=self.out_degrees - gone + 1,
            num_all_edges=self.num_all_edges + self.num_nodes,
            each_has_edges=True,
            edge_attrs={},
            replaced=loops if self.replaced is None else torch.cat([self.replaced, loops]),
        )


def part_of(graph: Graph | GraphShard, partition: Partition | None, rank: int, world_size: int) -> GraphShard:
    """Return this rank's part of a graph, or check that it is.

    Raises
    ------
    InputError
        If there is no such part.
    """
    if partition is not None and not isinstance(partition, Partition):
        raise InputError(f"ShardedGraph: expected partition to be an hr.Partition, got {type(partition).__name__}")
    if isinstance(graph, GraphShard):
        if partition is not None and partition != graph.partition:
            raise InputError("ShardedGraph: the graph is a part by another partition; pass the part alone")
        if (graph.part, graph.partition.num_parts) != (rank, world_size):
            raise InputError(
                f"ShardedGraph: expected part {rank} of {world_size}, got part {graph.part} of "
                f"{graph.partition.num_parts}; each rank passes its own, of as many parts as there are ranks"
            )
        return graph
    if isinstance(graph, EdgePart):
        raise InputError(
            "ShardedGraph: expected a part of a graph that is cut by its nodes, got one that is cut by edges; cut the "
            "data set by hr.Partition"
        )
    if not isinstance(graph, Graph):
        raise InputError(f"ShardedGraph: expected an hr.Graph or a part of one, got {type(graph).__name__}")
    if partition is None and world_size > 1:
        raise InputError("ShardedGraph: expected a partition, the owner of each node, as there are several ranks")
    partition = Partition.range(graph.num_nodes, 1) if partition is None else partition
    if partition.num_parts != world_size:
        raise InputError(
            f"ShardedGraph: expected a part for each of the {world_size} ranks, got a partition of "
            f"{partition.num_parts} parts"
        )
    return shard(graph, partition, rank)


def check_same(comm: Comm, words: str, problem: str) -> None:
    """Refuse to go on if another rank says something else; one collective.

    Raises
    ------
    InputError
        With `problem` and the rank that differs.
    """
    number = int.from_bytes(hashlib.sha256(utf8(words)).digest()[:7], "little")
    with comm.doing(problem):
        others = comm.all_gather(number)
    for rank, other in enumerate(others):
        if other != number:
            raise InputError(f"{problem}: rank {comm.rank} has {words}, rank {rank} something else")


def exchange_wanted(
    wanted: tuple[Tensor, ...], partition: Partition, num_rows: int, comm: Comm | None
) -> tuple[Tensor | None, ...]:
    """Tell each rank the nodes whose rows this one needs; return the rows that each needs of this one, None for all."""
    if comm is None:
        return (None,)
    receive_counts = [len(rows) for rows in wanted]
    send_counts = comm.all_to_all_counts(receive_counts)
    asked = partition.position(comm.all_to_all(torch.cat(wanted), receive_counts, send_counts))
    # Distinct and ascending, so as many as there are rows are all rows.
    return tuple(None if len(rows) == num_rows else rows for rows in asked.split(send_counts))  # type: ignore[no-untyped-call]


def count_out_degrees(
    shards: tuple[Shard, ...], sends: tuple[Tensor | None, ...], num_rows: int, comm: Comm | None
) -> Tensor:
    """Return the number of out-edges of each row of this rank, on all ranks: int64[num_rows]."""
    counts = [torch.bincount(shard.indices, minlength=shard.num_sources) for shard in shards]
    rank = 0 if comm is None else comm.rank
    total = counts[rank].clone()
    if comm is None:
        return total
    counts[rank] = counts[rank][:0]
    send_counts = [len(one) for one in counts]
    receive_counts = [num_rows if rows is None else len(rows) for rows in sends]
    receive_counts[rank] = 0
    came = comm.all_to_all(torch.cat(counts), send_counts, receive_counts).split(receive_counts)  # type: ignore[no-untyped-call]
    for source, (rows, piece) in enumerate(zip(sends, came, strict=True)):
        if source != rank:
            total[slice(None) if rows is None else rows] += piece
    return total
