"""A rank's part of a graph: the in-edges of the vertices that it owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from headrace.ops.errors import GraphError
from headrace.ops.gather import gather_rows
from headrace.pipeline.arrays import whole_number
from headrace.pipeline.graph import Graph
from headrace.pipeline.partition import Partition


@dataclass(frozen=True, eq=False, repr=False)
class GraphShard(Graph):
    """The rows of a graph whose vertices one rank owns; the rows of all others are empty.

    Vertices and edges keep their ids, so picks are those of the whole graph. Make one with :meth:`hr.Graph.shard`.

    Parameters
    ----------
    partition
        The owner of each vertex.
    part
        Whose rows these are.
    whole_num_edges
        Edges of all parts.
    whole_digest
        Fingerprint of the whole graph: checkpoints do not depend on who owns what.
    """

    partition: Partition = field(kw_only=True)
    part: int = field(kw_only=True)
    whole_num_edges: int = field(kw_only=True)
    whole_digest: str = field(kw_only=True)

    def content_digest(self) -> str:
        """Return the fingerprint of the whole graph."""
        return self.whole_digest

    def __reduce__(self) -> Any:
        fields = {name: getattr(self, name) for name in ("partition", "part", "whole_num_edges", "whole_digest")}
        arrays = (self.indptr, self.indices, self.edge_permutation, dict(self.edge_attrs), self.node_types)
        return _remade, (arrays, fields)

    def __repr__(self) -> str:
        # The same on every rank.
        attributes = f", edge_attrs={list(self.edge_attrs)}" if self.edge_attrs else ""
        whole = f"num_nodes={self.num_nodes}, num_edges={self.whole_num_edges}{attributes}"
        return f"GraphShard({whole}, {self.partition!r})"


def shard(graph: Graph, partition: Partition, part: int) -> GraphShard:
    """Return the part of a graph that one rank owns; `hr.Graph.shard` documents it."""
    if partition.num_nodes != graph.num_nodes:
        raise GraphError(
            f"Graph.shard: the partition has {partition.num_nodes} vertices, the graph {graph.num_nodes}; make the "
            "partition for this graph"
        )
    if graph.edge_types is not None:
        raise GraphError("Graph.shard: graphs with edge types cannot be cut in this version")
    part = whole_number(part, "Graph.shard: part", 0, GraphError, partition.num_parts - 1)
    owned = partition.owned(part)
    degrees = torch.zeros(graph.num_nodes, dtype=torch.int64)
    degrees[owned] = graph.in_degrees()[owned]
    indptr = torch.zeros(graph.num_nodes + 1, dtype=torch.int64)
    torch.cumsum(degrees, 0, out=indptr[1:])
    positions = torch.arange(int(indptr[-1]))
    positions += torch.repeat_interleave(graph.indptr[owned] - indptr[owned], degrees[owned])
    ids = graph.original_edge_ids(positions)
    return GraphShard(
        indptr,
        gather_rows(graph.indices, positions),
        ids.to(torch.int32) if graph.num_edges <= torch.iinfo(torch.int32).max else ids,
        {name: gather_rows(rows, positions) for name, rows in graph.edge_attrs.items()},
        graph.node_types,
        partition=partition,
        part=part,
        whole_num_edges=graph.num_edges,
        whole_digest=graph.content_digest(),
    )


def _remade(arrays: tuple[Any, ...], fields: dict[str, Any]) -> GraphShard:
    return GraphShard(*arrays, **fields)
