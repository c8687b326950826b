"""Other edges over the same rows: with a loop for each node, and with a row for each destination and edge type."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from headrace.ops.aggregate.precision import widened
from headrace.ops.errors import InputError
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.sar.reductions import reduced
from headrace.pipeline.models.sar.rounds import Rounds
from headrace.pipeline.models.sar.shard import Shard, csc


def with_loops(rounds: Rounds) -> Rounds:
    """Return the edges with one loop for each row in place of the loops that there are.

    The loop of row i stands at position ``rounds.num_edges + i``. What comes from other ranks stays the same.
    """
    own, number = rounds.own, rounds.num_dst
    nodes, num_edges = torch.arange(number, device=own.indices.device), rounds.num_edges + number
    kept = own.indices != own.destinations
    destinations = torch.cat([own.destinations[kept], nodes])
    order = destinations.argsort(stable=True)
    looped = csc(
        own.owner,
        number,
        torch.cat([own.indices[kept], nodes])[order],
        destinations[order],
        number,
        torch.cat([own.positions[kept], nodes + rounds.num_edges])[order],
        num_edges,
    )
    shards = tuple(looped if shard is own else shard for shard in rounds.shards)
    return dataclasses.replace(rounds, shards=shards, num_edges=num_edges)


class TypedEdges:
    """In-edges by type: what arrives at a destination is reduced for each type by itself, in the same rounds.

    A group is a destination and the type of some of its in-edges. Groups are in the order of types, those of a type in
    the order of destinations.

    Parameters
    ----------
    rounds
        Of all edges.
    destinations: int64[num_edges]
        The destination of each edge.
    types: integer[num_edges]
        Of each edge, in [0, num_types).
    num_types
        Types.
    replaced: int64[n], optional
        Entries that are no edges any more, and belong to no group.

    Attributes
    ----------
    destinations : torch.Tensor
        int64[num_groups].
    sizes : list of int
        The number of groups of each type.

    Raises
    ------
    InputError
        For types out of range.
    """

    def __init__(
        self, rounds: Rounds, destinations: Tensor, types: Tensor, num_types: int, replaced: Tensor | None = None
    ) -> None:
        if types.shape != destinations.shape or types.is_floating_point():
            raise InputError(
                f"edge types: expected a whole number for each of this rank's {len(destinations)} edges, got "
                f"{types.dtype}{list(types.shape)}; graph.edge_rows(types) takes them out of those of all edges"
            )
        known = torch.ones(len(types), dtype=torch.bool, device=destinations.device)
        known = known if replaced is None else known.index_fill(0, replaced, False)
        types, destinations = types.long()[known], destinations[known]
        if len(types) and not (int(types.min()) >= 0 and int(types.max()) < num_types):
            raise InputError(
                f"edge types: expected numbers in [0, {num_types}), got {int(types.min())} to {int(types.max())}"
            )
        num_dst = max(rounds.num_dst, 1)
        keys, groups = torch.unique(types * num_dst + destinations, return_inverse=True)
        self.destinations = keys % num_dst
        self.sizes: list[int] = torch.bincount(keys // num_dst, minlength=num_types).tolist()
        self._degrees = torch.bincount(groups, minlength=len(keys))
        # Entries that are no edges are in the group behind all others, which nothing is asked for.
        self._groups = torch.full((rounds.num_edges,), len(keys), device=known.device).masked_scatter(known, groups)
        shards = tuple(grouped(shard, self._groups, len(keys), rounds.num_edges) for shard in rounds.shards)
        self._rounds = dataclasses.replace(rounds, shards=shards, num_dst=len(keys))

    def aggregate(self, x: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the reduced messages of each group, [num_groups, ...]; `ShardedGraph.aggregate` has the parameters."""
        x, weight = widened(x), widened(weight)
        divisors = self._degrees.to(x.dtype) if reduce == "mean" and weight is None else None
        return reduced(x, reduce, weight, divisors, self._sum_edges, self._rounds)

    def _sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of the edges of each group."""
        number = len(self._degrees)
        return values.new_zeros(number + 1, *values.shape[1:]).index_add(0, self._groups, values)[:number]


def grouped(shard: Shard, groups: Tensor, num_groups: int, num_edges: int) -> Shard:
    """Return the edges of a shard in the order of their groups."""
    of_edges = groups[shard.positions.long()]
    order = of_edges.argsort(stable=True)
    return csc(
        shard.owner,
        shard.num_sources,
        shard.indices[order],
        of_edges[order],
        num_groups,
        shard.positions[order],
        num_edges,
    )
