"""The graph: compressed sparse columns over in-neighbours, with edge attributes in the same order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import PlanError
from headrace.ops.forks import cached_property
from headrace.pipeline.data.build_graph import as_edges, graph_of_csc, graph_of_ends
from headrace.pipeline.data.changed_graph import ChangedGraph
from headrace.pipeline.data.digest import sampled_digest
from headrace.pipeline.data.edge_attrs import EdgeAttrs
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.registry import registered
from headrace.pipeline.data.types import TypeCounts, TypeOffsets

if TYPE_CHECKING:
    from headrace.pipeline.data.type_attributes import Wanted

Types = TypeOffsets | TypeCounts
EdgesByType = Mapping[tuple[str, str, str], Any]


@dataclass(frozen=True, eq=False, repr=False)
class Graph(ChangedGraph, GraphView):
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
    InputError
        If an array has the wrong dtype, length or device, or there are no nodes.
    """

    @classmethod
    def from_coo(
        cls,
        src: ArrayLike | Tensor | EdgesByType,
        dst: ArrayLike | Tensor | None = None,
        *,
        num_nodes: int | Mapping[str, int] | None = None,
        edge_attrs: Mapping[Any, Any] | None = None,
        node_attrs: Mapping[Any, Any] | None = None,
        time: str | None = None,
        node_types: Types | None = None,
        edge_types: Types | None = None,
        num_threads: int | None = None,
        **others: NoReturn,
    ) -> Graph:
        """Build a graph from a list of edges; messages go from ``src[i]`` to ``dst[i]``.

        Edges keep their input order within each destination. Repeated edges and self-loops are kept. ``graph.edge_ids``
        maps to the input order, and ``graph.edge_attrs`` has the attributes in that order.

        Parameters
        ----------
        src, dst: int32[num_edges] or int64[num_edges]
            Tensors or arrays in CPU memory, of any strides. Other integer dtypes are refused. For PyG's ``edge_index``
            pass its two rows, ``edge_index[0], edge_index[1]``. For a graph with types pass edges by type, ``{("user",
            "buys", "item"): (src, dst), ...}``, with ids that count from 0 within the type of each end: the graph is
            that of `from_pyg` for a ``HeteroData`` with these edges.
        num_nodes
            Default: the number of nodes in `node_types`, or the largest id plus one, which omits trailing nodes without
            edges. With edges by type a dictionary by node type, whose order is that of the types; a type that it lacks
            follows these, with as many nodes as its node attributes have rows, or else the largest id of its edges plus
            one.
        edge_attrs
            Arrays of num_edges rows, of any dtype, in input order. With edges by type, ``{edge_type: {name: values}}``.
            Edges of types without a time (``time``, ``timestamp``, ``..._time``) have always been there, edges of types
            without a weight (``weight``, ``..._weight``) have weight 1; every type must have all other attributes.
        node_attrs
            Arrays of num_nodes rows, such as times of nodes. With edges by type, ``{node_type: {name: values}}``.
        time
            Name of the times of edges or nodes to sort rows by, so that `by_time` copies nothing later.
        node_types, edge_types
            Counts per type in order, or `TypeOffsets`. Edge types that are (source, relation, destination)
            triples are checked against the node types.
        num_threads
            Threads for the sort; None uses all cores. The result does not depend on it.

        Raises
        ------
        PlanError
            For other arguments, such as ``edge_weight=``.
        InputError
            If ids are negative or >= num_nodes, lengths or dtypes do not match, there are no nodes, tensors are not
            in CPU memory, types do not cover the ids, or of edges by type an attribute is missing that has no default.
        """
        if others:
            raise PlanError(
                f"Graph.from_coo: expected attributes in edge_attrs= and node_attrs=, got {', '.join(others)}=; write "
                f"edge_attrs={{{', '.join(f'{name!r}: {name}' for name in others)}}}"
            )
        if isinstance(src, Mapping):
            from headrace.pipeline.data.graph_sources import graph_of_edges
            from headrace.pipeline.data.typed_edges import edges_by_type

            beside = {"dst": dst, "node_types": node_types, "edge_types": edge_types}
            graph = graph_of_edges(cls, edges_by_type(src, num_nodes, edge_attrs, node_attrs, beside), num_threads)
        else:
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
        InputError
            If indptr decreases or does not run from 0 to num_edges, indices are out of range, `edge_ids` is not a
            permutation, lengths or dtypes do not match, there are no nodes, tensors are not in CPU memory, or
            attributes are those of another graph in input order.
        """
        return graph_of_csc(
            cls,
            indptr,
            indices,
            edge_ids,
            edge_attrs=edge_attrs,
            node_attrs=node_attrs,
            node_types=node_types,
            edge_types=edge_types,
        )

    @classmethod
    def from_scipy(cls, matrix: Any, *, num_threads: int | None = None) -> Graph:
        """Return a graph from a square scipy sparse matrix: entry (i, j) is an edge from i to j.

        Its value becomes the edge attribute "weight". Stored zeros are edges too. Edge ids count the stored entries in
        the order of ``matrix.tocoo()``.

        Raises
        ------
        InputError
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
            edge-level tensors (``edge_attr``, …), ``edge_label`` only without ``edge_label_index``. Edges of types
            without a time get the earliest time (-inf, the smallest int64), edges of types without a weight get weight
            1; any other attribute that some types lack is left out with a warning. `node_attrs` likewise for nodes, by
            default ``time``.

        Raises
        ------
        InputError
            If `data` is neither class, or lacks ``edge_index`` or a requested attribute, and as for `from_coo`.
        """
        from headrace.pipeline.data.graph_sources import edges_from_pyg, graph_of_edges
        from headrace.pipeline.data.type_attributes import as_wanted

        edges = edges_from_pyg(data, as_wanted(edge_attrs), as_wanted(node_attrs))
        return graph_of_edges(cls, edges, num_threads)

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
        InputError
            If `graph` is not a DGL graph (for example a block, or a graph in shards) or lacks an edge feature, and as
            for `from_coo`.
        """
        from headrace.pipeline.data.dgl_graphs import graph_from_dgl
        from headrace.pipeline.data.type_attributes import as_wanted

        return graph_from_dgl(cls, graph, as_wanted(edge_attrs), as_wanted(node_attrs), num_threads)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the graph to a folder of ``.npy`` files, for `load`: the folder is a data set (`hr.save_dataset`).

        Parameters
        ----------
        path
            The folder to make; it appears when it is complete.
        overwrite
            Replace a data set at `path`.

        Raises
        ------
        InputError
            If `path` exists and may not be replaced.
        OSError
            If it cannot be written.
        """
        registered("save_graph")(self, path, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, memory_map: bool = True) -> Graph:
        """Return the graph of a data set, such as `save` wrote; nothing is unpickled.

        Parameters
        ----------
        path
            The folder.
        memory_map
            Leave the arrays on disk until they are read.

        Raises
        ------
        InputError
            If the folder holds no data set, or a file is missing or damaged.
        """
        loaded: Graph = registered("load_graph")(path, memory_map)
        return loaded

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
