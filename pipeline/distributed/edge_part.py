"""A part of a graph that is cut by edges, which stands alone: no rank needs the whole graph for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.ops import Hop, InputError, check_csc
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
        Nodes at an end of its edges whose master is another part, ascending.
    in_degrees, out_degrees: int64[num_own + num_others]
        The degrees of `nodes_at_hand` in the whole graph.
    sums_before
        By the names of attributes that may be weights, float64[num_local_edges]: the sum of the weights of the in-edges
        of its destination before each edge, in the whole graph, added up in CSC order.
    row_sums
        By the same names, float64[num_own + num_others]: the sum of the weights of all in-edges of `nodes_at_hand`.
    num_columns
        Of the grid that edges are cut on.
    num_edges, node_types, edge_types
        Of the whole graph.
    node_attrs
        Those of all nodes.
    whole_digest
        Fingerprint of the whole graph.
    """

    edge_ids: Tensor
    edge_attrs_csc: Mapping[str, Tensor]
    first_positions: Tensor
    others: Tensor
    in_degrees: Tensor
    out_degrees: Tensor
    sums_before: Mapping[str, Tensor]
    row_sums: Mapping[str, Tensor]
    num_columns: int
    num_edges: int
    node_types: TypeOffsets | None
    edge_types: TypeOffsets | None
    node_attrs: Mapping[str, Tensor]
    whole_digest: str

    def __post_init__(self) -> None:
        check_csc(self.indptr, self.indices, self.num_nodes, num_rows=len(self.nodes))
        for name, bound in (("nodes", self.num_nodes), ("others", self.num_nodes), ("positions", self.num_edges)):
            _check_ascends(name, getattr(self, name), bound)
        ends = self.holders_indptr
        if int(ends[0]) != 0 or bool((ends.diff() < 0).any()) or int(ends[-1]) != len(self.holders):
            raise InputError(f"expected holders_indptr to rise from 0 to {len(self.holders)}, got another array")
        if len(self.nodes) and int(self.offsets.min()) < 0:
            raise InputError("expected first_positions at or before the positions of edges, got later ones")
        if bool((self.masters.owner(self.others) == self.part).any()):
            raise InputError(f"expected others to be nodes of other parts than {self.part}, got one of its own")
        for name in ("in_degrees", "out_degrees"):
            degrees = getattr(self, name)
            if len(degrees) and int(degrees.min()) < 0:
                raise InputError(f"expected {name} of at least 0, got {int(degrees.min())}")
        for name in ("sums_before", "row_sums"):
            for weight, sums in getattr(self, name).items():
                if len(sums) and not float(sums.min()) >= 0:  # NaN too
                    raise InputError(f"expected {name} of {weight!r} of at least 0, got {float(sums.min())}")
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
    def own_nodes(self) -> Tensor:
        """The nodes whose master this part is, ascending: int64[num_own]."""
        return self.masters.owned(self.part)

    @property
    def nodes_at_hand(self) -> Tensor:
        """The nodes whose master this part is, ascending, and behind them `others`: int64[num_own + num_others]."""
        return torch.cat([self.own_nodes, self.others])

    def in_edges(self, nodes: Tensor, num_threads: int = 1) -> Hop:
        """Return the in-edges that are here of some of `nodes`; positions are those of the whole graph.

        Raises
        ------
        InputError
            For a node without an in-edge here.
        """
        others = nodes[~torch.isin(nodes, self.nodes)]
        if len(others):
            raise InputError(
                f"EdgePart.in_edges: expected destinations of its edges, self.nodes, got node {int(others[0])}"
            )
        return super().in_edges(nodes, num_threads)

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
        return PartEdges(self.masters, self.part, self.edge_ids, self.num_edges, self.num_columns)

    def content_digest(self) -> str:
        """Return the fingerprint of the whole graph."""
        return self.whole_digest

    def __repr__(self) -> str:
        grid = f"{self.masters.num_parts // self.num_columns} x {self.num_columns} parts"
        here = f"part {self.part} with {self.num_local_edges} edges"
        return f"EdgePart(num_nodes={self.num_nodes}, num_edges={self.num_edges}, {grid}, {here})"


def _check_ascends(name: str, ids: Tensor, bound: int) -> None:
    """Refuse ids that do not ascend, or are out of range."""
    if len(ids) and (int(ids[0]) < 0 or int(ids[-1]) >= bound or bool((ids.diff() <= 0).any())):
        raise InputError(
            f"expected {name} to ascend in [0, {bound}), got ids from {int(ids.min())} to {int(ids.max())}"
        )
