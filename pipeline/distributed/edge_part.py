"""A part of a graph that is cut by edges, which stands alone: no rank needs the whole graph for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops import InputError, check_csc
from headrace.ops.forks import cached_property
from headrace.ops.graphs.rows import starts_of
from headrace.pipeline.data import TypeOffsets
from headrace.pipeline.distributed.edge_shard import EdgeShard
from headrace.pipeline.partition.part_owners import PartEdges


@dataclass(frozen=True, eq=False, repr=False)
class EdgePart(EdgeShard):
    """The edges of one part of an `hr.EdgePartition`, and what its rank must know of the nodes at their ends.

    Edges between the same two nodes are in one part, in their order, so that each keeps its number among those; an edge
    from a node to itself is with the master of that node. `hr.open_dataset` opens it. Plans read parts that are cut by
    nodes alone as yet.

    Parameters
    ----------
    edge_ids: int32[num_local_edges] or int64[num_local_edges]
    edge_attrs_csc
        Rows of attributes in the order of `edge_ids`.
    first_positions: int64[num_rows]
        Where the in-edges of each destination begin in the arrays of the whole graph.
    others: int64[num_others]
        Nodes at an end of its edges whose master another part is, ascending.
    in_degrees, out_degrees: int64[num_own + num_others]
        Those that `nodes_at_hand` have in the whole graph.
    num_edges
        Of the whole graph.
    node_types, edge_types
        Of the whole graph.
    whole_digest
        Fingerprint of the whole graph.
    """

    edge_ids: Tensor
    edge_attrs_csc: Mapping[str, Tensor]
    first_positions: Tensor
    others: Tensor
    in_degrees: Tensor
    out_degrees: Tensor
    num_edges: int
    node_types: TypeOffsets | None
    edge_types: TypeOffsets | None
    whole_digest: str

    def __post_init__(self) -> None:
        check_csc(self.indptr, self.indices, self.num_nodes, num_rows=len(self.nodes))
        for name, bound in (("nodes", self.num_nodes), ("others", self.num_nodes), ("positions", self.num_edges)):
            _check_ascends(name, getattr(self, name), bound)
        ends = self.holders_indptr
        if int(ends[0]) != 0 or bool((ends.diff() < 0).any()) or int(ends[-1]) != len(self.holders):
            raise InputError(f"expected holders_indptr to rise from 0 to {len(self.holders)}, got another array")
        if len(self.holders) and not 0 <= int(self.holders.min()) <= int(self.holders.max()) < self.masters.num_parts:
            raise InputError(f"expected holders below {self.masters.num_parts}, got {int(self.holders.max())}")

    @property
    def num_nodes(self) -> int:
        """Nodes of the whole graph."""
        return self.masters.num_nodes

    @property
    def num_local_edges(self) -> int:
        """Edges of this part."""
        return len(self.indices)

    @property
    def nodes_at_hand(self) -> Tensor:
        """The nodes whose master this part is, ascending, and behind them `others`: int64[num_own + num_others]."""
        return torch.cat([self.masters.owned(self.part), self.others])

    @property
    def offsets(self) -> Tensor:
        """Which of all in-edges of its destination each edge is, in the whole graph: int64[num_local_edges]."""
        return self.positions - self.first_positions.repeat_interleave(self.indptr.diff())

    @property
    def repeats(self) -> Tensor:
        """How many edges between the same two nodes are before an edge, in the whole graph: int64[num_local_edges]."""
        rows = torch.arange(len(self.nodes), device="cpu").repeat_interleave(self.indptr.diff())
        _, pairs = torch.unique(torch.stack([rows, self.indices.long()]), dim=1, return_inverse=True)
        order = pairs.argsort(stable=True)
        starts = starts_of(torch.bincount(pairs))
        repeats = torch.empty_like(order)
        repeats[order] = torch.arange(len(order), device="cpu") - starts[pairs[order]]
        return repeats

    @cached_property
    def edges(self) -> PartEdges:
        """The edges of the part among all, by which rows of edge features are divided."""
        return PartEdges(self.masters, self.part, self.edge_ids, self.num_edges)

    def content_digest(self) -> str:
        """Return the fingerprint of the whole graph."""
        return self.whole_digest

    def __repr__(self) -> str:
        return f"EdgePart(num_nodes={self.num_nodes}, num_edges={self.num_edges}, {self.masters!r})"


def _check_ascends(name: str, ids: Tensor, bound: int) -> None:
    """Refuse ids that do not ascend, or are out of range."""
    if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) >= bound or bool((ids.diff() <= 0).any())):
        raise InputError(
            f"expected {name} to ascend in [0, {bound}), got ids from {int(ids.min())} to {int(ids.max())}"
        )
