"""The graph: compressed sparse columns over in-neighbours, with edge attributes in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.ops.graphs.csc import check_csc
from headrace.pipeline.data.arrays import as_ids
from headrace.pipeline.data.build_graph import as_edges, graph_of_ends
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.edge_attrs import EdgeAttrs
from headrace.pipeline.data.edge_ids import as_permutation
from headrace.pipeline.data.graph_types import order_by_type
from headrace.pipeline.data.graph_view import GraphView, as_attributes
from headrace.pipeline.data.later import later
from headrace.pipeline.data.type_offsets import TypeCounts, TypeOffsets, as_type_offsets

if TYPE_CHECKING:
    from headrace.pipeline.data.type_attributes import Wanted

Types = TypeOffsets | TypeCounts


@dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphView):
    """A directed graph, stored as the in-neighbours of each node.

    The in-neighbours of node v are ``indices[indptr[v]:indptr[v + 1]]``. Build one with `from_coo`, `from_csc`,
    `from_scipy`, `from_pyg` or `from_dgl`. Graphs are in CPU memory; tensors on another device are refused. Arrays of
    the right form are kept by reference, not copied: do not change them afterwards.

    A graph that is sent to other processes by `torch.multiprocessing` (arguments of ``spawn``, a queue, workers of a
    DataLoader) moves to shared memory once: N processes need one copy, not N. `share_memory` does so in advance.
    Loaders may run meanwhile. For tensors of your own that you send or move by ``tensor.share_memory_()``, torch frees
    the old memory at once: do that while no loader reads them.

    Parameters
    ----------
    indptr: int64[num_nodes + 1]
    indices: int32[num_edges] or int64[num_edges]
        int32 when every node id fits.
    edge_permutation: int32[num_edges] or int64[num_edges], optional
        For each CSC position the input edge id; None if edges were given in CSC order. `edge_ids` is never None.
    edge_attrs_csc
        Tensors of num_edges rows, in CSC order: row i belongs to ``indices[i]``. `edge_attrs` has them in input order.
    node_types, edge_types
        Ranges of the node ids, and of the *input* edge ids. Rows are sorted by edge type.
    node_ids: int64[num_nodes], optional
        The ids of nodes outside the graph, if they differ from the positions in `indptr`: `hr.reorder` makes such a
        graph. Items and ``batch.n_id`` use these ids; samplers translate.
    node_attrs
        Tensors of num_nodes rows, by the graph's own ids, such as times of nodes, by which `by_time` sorts.
    edge_times: int64[num_edges], optional
        Times of edges, ascending within each row, in graphs that `by_time` returns.

    Raises
    ------
    GraphError
        If an array has the wrong dtype, length or device, or there are no nodes.
    """

    @classmethod
    def from_coo(
        cls,
        src: ArrayLike | Tensor,
        dst: ArrayLike | Tensor | None = None,
        *,
        num_nodes: int | None = None,
        edge_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        node_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        time: str | None = None,
        node_types: Types | None = None,
        edge_types: Types | None = None,
        num_threads: int | None = None,
    ) -> Graph:
        """Build a graph from a list of edges; messages go from ``src[i]`` to ``dst[i]``.

        Edges keep their input order within each destination. Repeated edges and self-loops are kept. ``graph.edge_ids``
        maps to the input order, and ``graph.edge_attrs`` has the attributes in that order.

        Parameters
        ----------
        src, dst: int32[num_edges] or int64[num_edges]
            Tensors or arrays in CPU memory, of any strides. Other integer dtypes are refused. For PyG's ``edge_index``
            pass its two rows, ``edge_index[0], edge_index[1]``.
        num_nodes
            Default: the number of nodes in `node_types`, or the largest id plus one, which omits trailing nodes without
            edges.
        edge_attrs
            Arrays of num_edges rows, of any dtype, in input order.
        node_attrs
            Arrays of num_nodes rows, such as times of nodes.
        time
            Name of the times of edges or nodes to sort rows by, so that `by_time` copies nothing later.
        node_types, edge_types
            Counts per type in order, or `TypeOffsets`. Edge types that are (source, relation, destination)
            triples are checked against the node types.
        num_threads
            Threads for the sort; None uses all cores. The result does not depend on it.

        Raises
        ------
        GraphError
            If ids are negative or >= num_nodes, lengths or dtypes do not match, there are no nodes, tensors are not
            in CPU memory, or types do not cover the ids.
        """
        src, dst, num_nodes = as_edges(src, dst, num_nodes, node_types)
        graph = graph_of_ends(
            cls,
            [src, dst],
            num_nodes,
            edge_attrs=edge_attrs,
            node_attrs=node_attrs,
            node_types=node_types,
            edge_types=edge_types,
            num_threads=num_threads,
        )
        return graph if time is None else replace(graph.by_time(time), edge_times=None)

    @classmethod
    def from_csc(
        cls,
        indptr: ArrayLike | Tensor,
        indices: ArrayLike | Tensor,
        *,
        edge_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        edge_ids: ArrayLike | Tensor | None = None,
        node_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        node_types: Types | None = None,
        edge_types: Types | None = None,
    ) -> Graph:
        """Return a graph from arrays in CSC form: in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.

        int64 indices are copied to int32 if all node ids fit. Non-contiguous arrays are copied, and so are arrays with
        rows that are not sorted by edge type. All others are kept by reference.

        Parameters
        ----------
        indptr: int64[num_nodes + 1] or int32[num_nodes + 1]
        indices: int32[num_edges] or int64[num_edges]
        edge_attrs
            Arrays of num_edges rows in CSC order, as `indices`, not in the order of `edge_ids`. For the attributes of
            another graph pass its ``edge_attrs_csc``, not its ``edge_attrs``.
        edge_ids: int32[num_edges] or int64[num_edges], optional
            A permutation: the id of each CSC position's edge in your own edge order. Default: the position.
        node_attrs
            Arrays of num_nodes rows.

        Raises
        ------
        GraphError
            If indptr decreases or does not run from 0 to num_edges, indices are out of range, `edge_ids` is not a
            permutation, lengths or dtypes do not match, there are no nodes, tensors are not in CPU memory, or
            attributes are those of another graph in input order.
        """
        if isinstance(edge_attrs, EdgeAttrs):
            raise GraphError(
                "Graph.from_csc: expected edge_attrs in CSC order, got another graph's in input order; pass its "
                "edge_attrs_csc"
            )
        indptr = as_ids(indptr, "indptr", GraphError).to(torch.int64).contiguous()
        indices = as_ids(indices, "indices", GraphError).contiguous()
        num_nodes = indptr.numel() - 1
        if num_nodes < 1:
            raise GraphError(
                f"Graph.from_csc: expected indptr of num_nodes + 1 >= 2 entries, got {indptr.numel()}; "
                "a graph may have no edges, but not no nodes"
            )
        check_csc(indptr, indices, num_nodes)
        if indices.dtype == torch.int64 and num_nodes <= torch.iinfo(torch.int32).max:
            indices = indices.to(torch.int32)
        permutation = None if edge_ids is None else as_permutation(edge_ids, indices.numel())
        attributes = as_attributes(edge_attrs, indices.numel())
        edge_types = as_type_offsets(edge_types, indices.numel(), "edge_types")
        if edge_types is not None:
            ids = torch.arange(indices.numel(), device="cpu") if permutation is None else permutation
            order = order_by_type(indptr, ids, edge_types)
            if order is not None:
                indices, permutation = gather_rows(indices, order), gather_rows(ids, order)
                attributes = {name: gather_rows(rows, order) for name, rows in attributes.items()}
        node_types = as_type_offsets(node_types, num_nodes, "node_types")
        of_nodes = as_attributes(node_attrs, num_nodes, "node")
        return cls(indptr, indices, permutation, attributes, node_types, edge_types, node_attrs=of_nodes)

    @classmethod
    def from_scipy(cls, matrix: Any, *, num_threads: int | None = None) -> Graph:
        """Return a graph from a square scipy sparse matrix: entry (i, j) is an edge from i to j.

        Its value becomes the edge attribute "weight". Stored zeros are edges too. Edge ids count the stored entries in
        the order of ``matrix.tocoo()``.

        Raises
        ------
        GraphError
            If `matrix` is not a sparse matrix, not square, or empty.
        """
        from headrace.pipeline.data.graph_sources import edges_from_scipy, graph_of_edges

        return graph_of_edges(cls, edges_from_scipy(matrix), num_threads)

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        edge_attrs: Wanted = None,
        node_attrs: Wanted = None,
        num_threads: int | None = None,
    ) -> Graph:
        """Return the graph of a torch_geometric ``Data`` or ``HeteroData``.

        The nodes of all types of a ``HeteroData`` have one id space, type by type in its own order, and so have the
        edges: ``graph.node_types`` and ``graph.edge_types`` are the ranges.

        Parameters
        ----------
        edge_attrs
            Names of the edge attributes to take, or ``{name: value}`` with the value for types without it. Default: all
            edge-level tensors (``edge_attr``, …). Edges of types without a time get the earliest time (-inf, the
            smallest int64), edges of types without a weight get weight 1; any other attribute that some types lack is
            left out with a warning. `node_attrs` likewise for nodes, by default ``time``.

        Raises
        ------
        GraphError
            If `data` is neither class, or lacks ``edge_index`` or a requested attribute, and as for `from_coo`.
        """
        from headrace.pipeline.data.graph_sources import edges_from_pyg, graph_of_edges

        return graph_of_edges(cls, edges_from_pyg(data, edge_attrs, node_attrs), num_threads)

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        *,
        edge_attrs: Wanted = None,
        node_attrs: Wanted = None,
        num_threads: int | None = None,
    ) -> Graph:
        """Return the graph of a ``dgl.DGLGraph``, homogeneous or heterogeneous; edge ids are DGL's.

        Types are as in `from_pyg`, in the order of ``graph.ntypes`` and ``graph.canonical_etypes``. `edge_attrs` and
        `node_attrs` are as in `from_pyg`; by default all in ``graph.edata``, and ``time`` of nodes.

        A graph without types that is restricted to CSC, ``g.formats("csc")``, is not sorted, and its memory is shared.
        The same holds for a ``FusedCSCSamplingGraph`` of GraphBolt: edge ids are its original ones if it has them,
        otherwise positions, which count within each type in graphs with types.

        Raises
        ------
        GraphError
            If `graph` is not a DGL graph (for example a block, or a graph in shards) or lacks an edge feature, and as
            for `from_coo`.
        """
        from headrace.pipeline.data.dgl_graphs import graph_from_dgl

        return graph_from_dgl(cls, graph, edge_attrs, node_attrs, num_threads)

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
        GraphError
            If the partition has another number of nodes, or there is no such part.
        """
        made: GraphView = later("shard")(self, partition, part)
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
        GraphError
            If the order misses a node, or the graph has node types.
        """
        from headrace.pipeline.data.graph_order import reordered

        return reordered(self, order)

    def with_self_loops(self, fill: float = 1.0) -> Graph:
        """Return the graph with a self-loop added to each node that has none.

        The loops get the next edge ids, in the order of their nodes, and are last in their rows.

        Parameters
        ----------
        fill
            The value of edge attributes for the added loops.

        Raises
        ------
        GraphError
            If the graph has edge types.
        """
        from headrace.pipeline.data.self_loops import with_self_loops

        return with_self_loops(self, fill)

    @property
    def num_edges(self) -> int:
        """Return the number of edges."""
        return self.indices.numel()

    @property
    def edge_attrs(self) -> Mapping[str, Tensor]:
        """Return the edge attributes in input order, for ``FeatureStore(edge=graph.edge_attrs)``.

        If edges were not given in CSC order, each look-up makes a copy, which is not kept: look up once.
        """
        return EdgeAttrs(self.edge_attrs_csc, self.edge_permutation)

    def content_digest(self) -> str:
        """Return a fingerprint of structure, edge ids, attributes and types (computed once).

        Arrays above 4 MiB are sampled (`headrace.pipeline.data.digest.sampled_digest`). So it distinguishes different
        data sets, but does not prove that two files are equal.
        """
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        arrays = [("indptr", self.indptr), ("indices", self.indices)]
        if self.edge_permutation is not None:
            arrays.append(("edge_ids", self.edge_permutation))
        arrays += [(f"edge_attrs/{name}", self.edge_attrs_csc[name]) for name in sorted(self.edge_attrs_csc)]
        if self.node_ids is not None:
            arrays.append(("node_ids", self.node_ids))
        arrays += [(f"node_attrs/{name}", self.node_attrs[name]) for name in sorted(self.node_attrs)]
        for what, types in (("node_types", self.node_types), ("edge_types", self.edge_types)):
            if types is not None:
                arrays.append((f"{what}/{types.names}", types.offsets))
        return sampled_digest(arrays)

    def __reduce__(self) -> tuple[type[Graph], tuple[Any, ...]]:
        # Neither read-only views of mappings nor the sampler kept with the graph can be pickled, nor need they be.
        return type(self), (
            self.indptr,
            self.indices,
            self.edge_permutation,
            dict(self.edge_attrs_csc),
            self.node_types,
            self.edge_types,
            self.node_ids,
            dict(self.node_attrs),
            self.edge_times,
        )

    def __repr__(self) -> str:
        parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}"]
        if self.edge_attrs_csc:
            parts.append(f"edge_attrs={list(self.edge_attrs_csc)}")
        if self.node_attrs:
            parts.append(f"node_attrs={list(self.node_attrs)}")
        for what, types in (("node_types", self.node_types), ("edge_types", self.edge_types)):
            if types is not None:
                parts.append(f"{what}={list(types.names)}")
        if self.node_ids is not None:
            parts.append("node_ids=...")
        return f"Graph({', '.join(parts)})"
