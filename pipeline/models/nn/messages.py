"""Functions of messages that layers are made of: each is written once, for every kind of graph that messages pass over.

A body is a function of `MessageEdges`. On a block of one process, and where one rank has all edges, torch's autograd
keeps what it computes. Where ranks share edges or shards come in rounds, it is computed by parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from headrace.ops import InputError
from headrace.ops.aggregate.compiling import is_compiling, uncompiled
from headrace.ops.aggregate.precision import dtype_of_sums, in_single, widened
from headrace.ops.forks import cached_property
from headrace.pipeline.data import Block, describe
from headrace.pipeline.data.block_messages import (
    destinations_of,
    edges_without_padding,
    num_dst_of,
    num_src_of,
)
from headrace.pipeline.distributed.shared_block import SharedBlock
from headrace.pipeline.models.by_parts.parts import Tables
from headrace.pipeline.models.by_parts.seam import mask_key
from headrace.pipeline.models.by_parts.staged import Staged
from headrace.pipeline.models.by_parts.statistics import reduced
from headrace.pipeline.models.message_graph import GraphShare, loop_values
from headrace.pipeline.models.nn.aggregate import (
    Edges,
    Looped,
    check_has_own_rows,
    check_input,
    columns,
    ends_without_padding,
    is_block,
    own_rows,
    with_self_loops,
    without_padding,
)
from headrace.pipeline.models.nn.attention_keys import Masks
from headrace.pipeline.models.replace_modules import drop_elements
from headrace.pipeline.models.running_batch import RUNNING
from headrace.pipeline.models.shared_edges import SharedEdges


class MessageEdges(Protocol):
    """The edges that a function of messages is called for together: n of them."""

    def of_sources(self, table: int) -> Tensor:
        """Return the rows of their sources, [n, ...], of a table of those that were passed."""

    def of_destinations(self, rows: Tensor) -> Tensor:
        """Return the rows of their destinations, [n, ...], of rows of destinations."""

    def of_edges(self, values: Tensor) -> Tensor:
        """Return their entries, [n, ...], of an array of edges."""

    def softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of scores, [n, ...], over the edges of each destination, by importance weights if any."""

    def dropout(self, rows: Tensor, probability: float) -> Tensor:
        """Drop elements of rows, [n, ...], by masks that belong to edges, and scale up the others."""

    def reduce(self, messages: Tensor, kind: str) -> Tensor:
        """Return the "sum", "mean", "max" or "min" of messages, [num_dst, ...]; 0 for a destination without edges."""


#: Returns rows of destinations, [num_dst, ...], of messages that it reduces to them.
Body: TypeAlias = Callable[[MessageEdges], Tensor]


@dataclass(frozen=True, eq=False)
class EdgesOfProcess:
    """All edges of one process, as `MessageEdges`.

    Parameters
    ----------
    tables: each [num_src, ...]
        Rows of sources.
    sources, index: integer[n]
        The ends of edges.
    positions: int64[n] or None
        Where the edges are in arrays of edges; None if these are in their order.
    num_dst
        Destinations.
    weight: [n], optional
        What edges count in a softmax.
    masks: optional
        Returns the key of masks of dropout, and the ids of edges, int64[n].
    """

    tables: Tables
    sources: Tensor
    index: Tensor
    positions: Tensor | None
    num_dst: int
    weight: Tensor | None
    masks: Callable[[], tuple[int, Tensor]]

    def of_sources(self, table: int) -> Tensor:
        """Return the rows of sources, [n, ...]."""
        return self.tables[table].index_select(0, self.sources)

    def of_destinations(self, rows: Tensor) -> Tensor:
        """Return the rows of destinations, [n, ...]."""
        return rows.index_select(0, self.index)

    def of_edges(self, values: Tensor) -> Tensor:
        """Return the entries of edges, [n, ...]."""
        return values if self.positions is None else values.index_select(0, self.positions)

    def softmax(self, scores: Tensor) -> Tensor:
        """Return the softmax of scores, [n, ...], over the edges of each destination."""
        largest = reduced(scores.detach(), self.index, self.num_dst, "max")
        powers = (scores - largest.index_select(0, self.index)).exp()
        if self.weight is not None:
            powers = powers * self.weight.view(-1, *(1 for _ in scores.shape[1:]))
        totals = self.reduce(powers, "sum")
        # A destination of which no edge counts has 0.
        return powers / totals.clamp(min=torch.finfo(totals.dtype).tiny).index_select(0, self.index)

    def dropout(self, rows: Tensor, probability: float) -> Tensor:
        """Drop elements of rows, [n, ...]."""
        if is_compiling():
            return functional.dropout(rows, probability)
        key, ids = self.masks()
        return drop_elements(rows, mask_key(key, 1), ids, probability)

    def reduce(self, messages: Tensor, kind: str) -> Tensor:
        """Return reduced messages, [num_dst, ...]."""
        return reduced(messages, self.index, self.num_dst, kind)


@dataclass(frozen=True, eq=False)
class BlockGraph:
    """A block of one process, with its own edges or with one loop at each destination in place of those that there are.

    Parameters
    ----------
    block
        The block.
    looped
        Its edges with those loops, whose entries in arrays of edges follow all others.
    """

    block: Block
    looped: Looped | None = None

    @property
    def num_dst(self) -> int:
        """Destinations."""
        return num_dst_of(self.block)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Sources and destinations of edges."""
        if self.looped is not None:
            edges = self.looped
            rows = torch.arange(self.num_dst, device=edges.indptr.device)
            return edges.indices, rows.repeat_interleave(edges.indptr.diff(), output_size=len(edges.indices))
        if is_compiling():
            return self.block.indices, destinations_of(self.block).long()
        sources, destinations = self.block.edge_index  # kept for all layers
        return sources, destinations

    def _counts(self, dtype: torch.dtype, weight: Tensor | None = None) -> Tensor | None:
        """Return what edges count, [n]: their weights, and 0 for loops that others have replaced; None if all 1."""
        weight = None if weight is None else weight.to(dtype)
        if self.looped is None:
            return weight
        if self.looped.is_kept is not None:
            weight = self.looped.is_kept.to(dtype) if weight is None else weight * self.looped.is_kept
        return None if weight is None else torch.cat([weight, weight.new_ones(self.num_dst)])[self.looped.origin]

    def edges(self, tables: Tables, masks: Masks) -> EdgesOfProcess:
        """Return the edges with rows of their sources."""

        def ids() -> tuple[int, Tensor]:
            origin = torch.arange(len(sources), device=sources.device) if self.looped is None else self.looped.origin
            names = None if self.looped is None else self.looped.names
            if masks.edge_ids is not None:
                return masks.key, masks.edge_ids[origin]
            return masks.key, torch.arange(len(sources), device=sources.device) if names is None else names

        sources, destinations = self.ends
        weight = self._counts(dtype_of_sums(tables[0]), self.block.weight)
        positions = None if self.looped is None else self.looped.origin
        return EdgesOfProcess(tables, sources, destinations, positions, self.num_dst, weight, ids)

    def in_degrees(self) -> Tensor:
        """Return the number of in-edges, int64[num_dst]."""
        counts = self._counts(torch.float64)
        if counts is None:
            return (self.block if self.looped is None else self.looped).indptr.diff()
        return counts.new_zeros(self.num_dst).index_add(0, self.ends[1], counts).long()

    def sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of in-edges, [num_edges, ...] to [num_dst, ...]."""
        values = values if self.looped is None else values.index_select(0, self.looped.origin)
        counts = self._counts(values.dtype)
        values = values if counts is None else values * counts.view(-1, *(1 for _ in values.shape[1:]))
        return values.new_zeros(self.num_dst, *values.shape[1:]).index_add(0, self.ends[1], values)

    def with_self_loops(self) -> BlockGraph:
        """Return the edges with one loop at each destination."""
        return BlockGraph(self.block, with_self_loops(self.block))


#: What layers pass messages over.
LayerGraph: TypeAlias = BlockGraph | GraphShare


def graph_of(block: Edges) -> LayerGraph:
    """Return what messages pass over on a block, or on a graph in shards."""
    if is_block(block):
        return BlockGraph(block)
    if isinstance(block, SharedBlock):
        running = RUNNING.get()
        return SharedEdges.of(block, None if running is None else running.nodes[: block.num_src])
    graph: GraphShare = block  # type: ignore[assignment] # a graph in shards is one, too
    return graph


def graph_with_loops(graph: LayerGraph, values: Tensor | None, fill: object) -> tuple[LayerGraph, Tensor | None]:
    """Return the graph with one loop at each destination, and values of edges with those of loops, as PyG fills them.

    Parameters
    ----------
    graph
        The graph.
    values: [num_edges, ...], optional
        Of edges.
    fill
        "mean" or "sum" of the in-edges from other nodes, or numbers.
    """
    if values is not None:
        values = torch.cat([values, loop_values(graph, values, fill)])
    return graph.with_self_loops(), values


def pass_messages(
    graph: LayerGraph, body: Body, sources: Tables, destinations: Tables = (), *, name: str, masks: Masks | None = None
) -> Tensor:
    """Return the rows of destinations, [num_dst, ...], that a body computes.

    Parameters
    ----------
    graph
        The edges.
    body
        The function of messages.
    sources: each [num_src, ...]
        What the body reads of sources, by number.
    destinations: each [num_dst, ...]
        What it reads of destinations.
    name
        Of the layer.
    masks
        What masks of dropout depend on.
    """
    masks = Masks(0) if masks is None else masks
    if isinstance(graph, BlockGraph):
        return body(graph.edges(sources, masks))
    return _by_parts(graph, body, sources, destinations, name, masks.key)


@uncompiled
def _by_parts(graph: GraphShare, body: Body, sources: Tables, destinations: Tables, name: str, key: int) -> Tensor:
    only = graph.parts.only
    if only is not None:
        edges = only.sources, only.destinations, only.positions, only.num_dst
        return body(EdgesOfProcess(sources, *edges, None, lambda: (key, only.ids)))
    return Staged(body, sources, graph.parts, False, key, f"messages of {name}", destinations)()


#: Columns of the rows of both ends, or of those of sources and of destinations.
Columns: TypeAlias = int | tuple[int, int]


def columns_of_ends(layer: str, in_channels: Columns) -> Columns:
    """Return the columns of rows as one size or two.

    Raises
    ------
    InputError
        For other values.
    """
    if isinstance(in_channels, tuple) and len(in_channels) == 2:
        return columns(layer, "in_channels[0]", in_channels[0]), columns(layer, "in_channels[1]", in_channels[1])
    return columns(layer, "in_channels", in_channels)


def each_end(in_channels: Columns) -> tuple[int, int]:
    """Return the columns of rows of sources, and of destinations."""
    return in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)


def both_ends(
    layer: str, x: Tensor | tuple[Tensor, Tensor], block: Edges, in_channels: Columns
) -> tuple[Tensor, Tensor]:
    """Return the rows of sources and of destinations, with 0 for padding.

    Raises
    ------
    InputError
        For rows of another number or width, and for one table where destinations are no sources.
    """
    of_sources, of_destinations = each_end(in_channels)
    if not isinstance(x, tuple):
        if of_sources != of_destinations:
            raise InputError(
                f"{layer}: expected rows of both ends for in_channels={in_channels}, got one table; call it as "
                "conv((x_src, x_dst), block)"
            )
        check_input(layer, x, block, of_sources)
        x = without_padding(x, block)
        return x, own_rows(x, block)
    if not hasattr(block, "num_src"):
        check_has_own_rows(layer, block)
    expected = (num_src_of(block), of_sources), (num_dst_of(block), of_destinations)
    if len(x) != 2 or any(
        not isinstance(one, Tensor) or one.shape != shape for one, shape in zip(x, expected, strict=True)
    ):
        got = ", ".join(describe(one) if isinstance(one, Tensor) else type(one).__name__ for one in x)
        raise InputError(
            f"{layer}: expected (x_src, x_dst) of {expected[0]} and {expected[1]}, a row for each source "
            f"and each destination of the block, got ({got})"
        )
    return without_padding(x[0], block), ends_without_padding(x[1], block)


def by_head(linear: nn.Linear, rows: Tensor, heads: int) -> Tensor:
    """Return the product of rows, [n, heads, columns], in which sums are exact enough."""
    product: Tensor = linear(rows)
    return in_single(widened(product)).view(len(rows), heads, linear.out_features // heads)


def edge_rows(layer: str, edge_attr: Tensor | None, block: Edges, edge_dim: int | None) -> Tensor | None:
    """Return features of edges, [num_edges, edge_dim], with 0 for padding; None for a layer without `edge_dim`.

    Raises
    ------
    InputError
        For features of another shape, for none, and for some without `edge_dim`.
    """
    if edge_dim is None:
        if edge_attr is not None:
            raise InputError(f"{layer}: expected no edge_attr for a layer without edge_dim, got one; pass edge_dim=")
        return None
    if edge_attr is None:
        raise InputError(
            f"{layer}: expected edge_attr of [{block.num_edges}, {edge_dim}] for a layer with edge_dim={edge_dim}, got "
            "none; pass the features of the block's edges, or leave out edge_dim"
        )
    if isinstance(edge_attr, Tensor) and edge_attr.ndim == 1:
        edge_attr = edge_attr.view(-1, 1)
    if not isinstance(edge_attr, Tensor) or edge_attr.shape != (block.num_edges, edge_dim):
        raise InputError(f"{layer}: expected edge_attr of [{block.num_edges}, {edge_dim}], got {describe(edge_attr)}")
    return edges_without_padding(edge_attr, block)


def weights_of_edges(layer: str, edge_weight: Tensor, block: Edges) -> Tensor:
    """Return weights of edges, [num_edges], with 0 for padding.

    Raises
    ------
    InputError
        For others than one for each edge.
    """
    if not isinstance(edge_weight, Tensor) or edge_weight.shape != (block.num_edges,):
        raise InputError(f"{layer}: expected edge_weight of [{block.num_edges}], got {describe(edge_weight)}")
    return edges_without_padding(edge_weight, block)
