"""A rank's part of a graph: the in-edges of the nodes that it owns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
from torch import Tensor

from headrace.ops import InputError, gather_rows
from headrace.ops.graphs.rows import edge_positions, row_starts
from headrace.pipeline.data import Graph, GraphView, check_kind, check_known_by_own_ids, whole_number
from headrace.pipeline.data.graph_machinery import table
from headrace.pipeline.data.registry import register
from headrace.pipeline.distributed.edge_part import EdgePart
from headrace.pipeline.distributed.job import rank_of_process
from headrace.pipeline.partition.part_owners import PartEdges
from headrace.pipeline.partition.partition import Partition

#: Fields of a part beside those of a graph.
_OF_PART = ("own_nodes", "partition", "part", "whole_num_edges", "whole_digest")


@dataclass(frozen=True, eq=False, repr=False)
class GraphShard(GraphView):
    """The rows of a graph whose nodes one rank owns; the rows of all others are empty.

    Nodes and edges keep their ids, so picks are those of the whole graph. Make one with :meth:`hr.Graph.shard`.

    Parameters
    ----------
    indptr: int64[num_own + 1]
        Where the in-edges of each of `own_nodes` begin.
    own_nodes: int64[num_own]
        The nodes that the part owns, ascending.
    node_attrs
        Those of all nodes: the sources of a rank's edges are anywhere.
    partition
        The owner of each node.
    part
        Whose rows these are.
    whole_num_edges
        Edges of all parts.
    whole_digest
        Fingerprint of the whole graph: checkpoints do not depend on who owns what.
    """

    own_nodes: Tensor = field(kw_only=True)
    partition: Partition = field(kw_only=True)
    part: int = field(kw_only=True)
    whole_num_edges: int = field(kw_only=True)
    whole_digest: str = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.own_nodes) != len(self.indptr) - 1:
            raise InputError(
                f"GraphShard: expected a row for each of {len(self.own_nodes)} nodes of the part, got "
                f"{len(self.indptr) - 1}"
            )

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes of the whole graph."""
        return self.partition.num_nodes

    @property
    def _own_nodes(self) -> Tensor | None:
        return None if len(self.own_nodes) == self.num_nodes else self.own_nodes

    @property
    def edges(self) -> PartEdges:
        """The edges of the part among all, by which `hr.ShardedFeature` takes rows of edges: those of its own nodes."""
        return table(
            self, "own edges", lambda: PartEdges(self.partition, self.part, self.edge_ids, self.whole_num_edges)
        )

    def in_degrees(self) -> Tensor:
        """Return the number of in-neighbours of each node, int64[num_nodes]; 0 of nodes of other parts."""
        degrees = torch.zeros(self.num_nodes, dtype=torch.int64, device="cpu")
        degrees[self.own_nodes] = self.indptr.diff()
        return degrees

    @property
    def num_edges(self) -> int:
        """Return the number of edges of the whole graph; `num_local_edges` counts those of this part."""
        return self.whole_num_edges

    @property
    def edge_attrs(self) -> Mapping[str, Tensor]:
        """Refuse: a part has no row for each input edge, so its rows would be those of other edges.

        Raises
        ------
        InputError
            Always, unless there are no attributes.
        """
        if self.edge_attrs_csc:
            raise InputError(
                "GraphShard.edge_attrs: expected a whole graph, whose attributes have a row for each input edge, got "
                f"part {self.part} of one; its own rows are edge_attrs_csc, row i that of input edge edge_ids[i]"
            )
        return {}

    def content_digest(self) -> str:
        """Return the fingerprint of the whole graph."""
        return self.whole_digest

    def shard(self, *_: object, **__: object) -> NoReturn:
        """Refuse: a part is not cut again.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(f"Graph.shard: this is part {self.part} of a graph already; cut the whole graph")

    def reordered(self, *_: object, **__: object) -> NoReturn:
        """Refuse: an order is that of all nodes.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError(f"Graph.reordered: this is part {self.part} of a graph; reorder the whole graph, then cut it")

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in _OF_PART}
        arrays = (
            self.indptr,
            self.indices,
            self.edge_permutation,
            dict(self.edge_attrs_csc),
            self.node_types,
            self.edge_types,
        )
        times = {"node_attrs": dict(self.node_attrs), "edge_times": self.edge_times}
        return _remade, (arrays, {**fields, **times})

    def __repr__(self) -> str:
        # The same on every rank.
        attributes = f", edge_attrs={list(self.edge_attrs_csc)}" if self.edge_attrs_csc else ""
        whole = f"num_nodes={self.num_nodes}, num_edges={self.num_edges}{attributes}"
        return f"GraphShard({whole}, {self.partition!r})"


@register
def shard(graph: Graph, partition: Partition, part: int | None) -> GraphShard:
    """Return the part of a graph that one rank owns; `hr.Graph.shard` documents it."""
    check_can_be_cut(graph, partition, "Graph.shard")
    part = rank_of_process(None, None)[0] if part is None else part
    part = whole_number(part, "Graph.shard: part", 0, InputError, partition.num_parts - 1)
    owned = partition.owned(part)
    starts = row_starts(graph.indptr, owned)
    num_edges = int(starts[-1])
    indices = graph.indices.new_empty(num_edges)
    edge_ids = torch.empty(num_edges, dtype=edge_id_dtype(graph.num_edges), device="cpu")
    edge_attrs = {name: rows.new_empty(num_edges, *rows.shape[1:]) for name, rows in graph.edge_attrs_csc.items()}
    for piece, positions in edge_positions(graph.indptr, owned, starts):
        gather_rows(graph.indices, positions, out=indices[piece])
        edge_ids[piece] = graph.original_edge_ids(positions)
        for name, rows in graph.edge_attrs_csc.items():
            gather_rows(rows, positions, out=edge_attrs[name][piece])
    return GraphShard(
        starts,
        indices,
        edge_ids,
        edge_attrs,
        graph.node_types,
        graph.edge_types,
        node_attrs=graph.node_attrs,
        own_nodes=owned,
        partition=partition,
        part=part,
        whole_num_edges=graph.num_edges,
        whole_digest=graph.content_digest(),
    )


def check_can_be_cut(graph: GraphView | EdgePart, partition: Partition, stage: str) -> None:
    """Refuse a graph that is a part already, or is not the one that was partitioned.

    Raises
    ------
    InputError
        Which starts with `stage`.
    """
    if isinstance(graph, GraphShard | EdgePart):
        raise InputError(f"{stage}: this is part {graph.part} of a graph already; cut the whole graph")
    check_known_by_own_ids(graph, stage)
    advice = "make one by hr.Partition.hash(num_nodes, num_parts) or metis(graph, num_parts)"
    check_kind(partition, Partition, f"{stage}: expected an hr.Partition", advice, InputError)
    if partition.num_nodes != graph.num_nodes:
        raise InputError(
            f"{stage}: the partition has {partition.num_nodes} nodes, the graph {graph.num_nodes}; make the "
            "partition for this graph"
        )


def edge_id_dtype(num_edges: int) -> torch.dtype:
    """Return the narrowest dtype of the ids of a whole graph's edges."""
    return torch.int32 if num_edges <= torch.iinfo(torch.int32).max else torch.int64


def _remade(arrays: tuple[Any, ...], fields: dict[str, Any]) -> GraphShard:
    return GraphShard(*arrays, **fields)
