"""Methods of a graph that return another one: a part of it, renumbered, with more edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from numpy.typing import ArrayLike
from torch import Tensor

from headrace.pipeline.data.registry import registered

if TYPE_CHECKING:
    from headrace.pipeline.data.graph import Graph
    from headrace.pipeline.data.graph_view import GraphView


class ChangedGraph:
    """The methods; `hr.Graph` is the only subclass."""

    def shard(self, partition: Any, part: int | None = None) -> GraphView:
        """Return a graph with the in-edges of the nodes that one rank owns; all other rows are empty.

        A loader over shards yields the same minibatches as one over the whole graph. With ``cooperative=True`` each
        rank samples only for the nodes that it owns; otherwise owners sample for the other ranks, in two rounds per
        hop. Edge ids are those of the whole graph.

        Parameters
        ----------
        partition
            The owner of each node.
        part
            The rank whose rows to take; by default this process in torch.distributed.

        Raises
        ------
        InputError
            If the partition has another number of nodes, or there is no such part.
        """
        made: GraphView = registered("shard")(self, partition, part)
        return made

    def reordered(self, order: ArrayLike | Tensor) -> Graph:
        """Return the graph with its nodes renumbered: node ``order[i]`` becomes node i.

        ``partition.order()`` sorts nodes by part, so that `Partition.ranges` replaces a table of owners. Reorder
        features and items in the same way: their new row i is the old row ``order[i]``, and ``order.argsort()`` is the
        new id of each node. Edge ids are still input edge ids, so edge features stay unchanged. Picks depend on ids:
        sampled neighbourhoods differ, with the same law.

        Parameters
        ----------
        order: int32[num_nodes] or int64[num_nodes]
            Every node once.

        Raises
        ------
        InputError
            If the order misses a node, or the graph has node types.
        """
        from headrace.pipeline.data.made_of_graph import reordered

        return reordered(cast("Graph", self), order)

    def with_self_loops(self, fill: float | Mapping[str, float] | None = None) -> Graph:
        """Return the graph with a self-loop added to each node that has none.

        The loops get the next edge ids, in the order of their nodes, and are last in their rows.

        Parameters
        ----------
        fill
            The value of edge attributes for the added loops, or a mapping with those of some attributes by name. By
            default loops have always been there, -inf or the smallest integer in attributes named ``time``,
            ``timestamp`` or ``..._time``; other attributes are 1. A number is that of all attributes.

        Raises
        ------
        InputError
            If the graph has edge types, for a name that is no edge attribute, or a value that one cannot hold.
        """
        from headrace.pipeline.data.made_of_graph import with_self_loops

        return with_self_loops(cast("Graph", self), fill)

    def with_reverse(self, edge_types: Iterable[Any] | None = None, *, prefix: str = "rev_") -> Graph:
        """Return the graph with the reverse of each edge, so that messages flow both ways.

        An edge type (source, relation, destination) gets the reverse type (destination, prefix + relation, source),
        behind all others. Its edge i is the reverse of edge i of the type and has its attributes, so edge features of
        the reverse type are the same array, and ``exclude_seed_edges(reverse={edge_type: reverse_type})`` leaves out
        both. In a graph without edge types, edge ``num_edges + i`` is the reverse of edge i; `undirected` adds only
        edges that are not present.

        Parameters
        ----------
        edge_types
            The types to reverse; by default all that have no reverse type yet and are not reverse types by their names.
        prefix
            Put before the name of the relation.

        Raises
        ------
        InputError
            If there is no such type, a type is not a triple, or the reverse type is present already.

        Examples
        --------
        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo({("user", "buys", "item"): ([0, 1], [0, 0])})
        >>> graph.with_reverse().edge_types
        TypeOffsets(('user', 'buys', 'item'): 2, ('item', 'rev_buys', 'user'): 2)
        """
        from headrace.pipeline.data.made_of_graph import with_reverse

        return with_reverse(cast("Graph", self), edge_types, prefix)

    def undirected(self, origin: str | None = None) -> Graph:
        """Return the graph with each edge in both directions.

        The reverse of an edge u -> v is added, with the same attributes, unless the graph has an edge v -> u of its
        type; loops and parallel edges stay as they are. Added edges have the ids that follow those of their type. An
        edge type between nodes of two types gets a reverse type behind all others, as by `with_reverse`, unless it has
        one or is one by its name.

        Parameters
        ----------
        origin
            Name of a new edge attribute, the id of the edge that each edge is, or is the reverse of: row
            ``graph.edge_attrs[origin][i]`` of edge features belongs to edge i.

        Raises
        ------
        InputError
            If an edge type between nodes of two types is not a triple, or `origin` is not a new name.

        Examples
        --------
        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([0, 1, 2, 2], [1, 0, 0, 2]).undirected(origin="edge")
        >>> graph.num_edges, graph.edge_attrs["edge"].tolist()
        (5, [0, 1, 2, 3, 2])
        """
        from headrace.pipeline.data.made_of_graph import undirected

        return undirected(cast("Graph", self), origin)
