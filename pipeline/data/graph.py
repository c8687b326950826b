"""The graph: compressed sparse columns over in-neighbours, with edge attributes in the same order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from headrace.ops.errors import GraphError
from headrace.ops.features.gather import gather_rows
from headrace.ops.graphs.csc import check_csc, coo_to_csc, has_parallel_edges
from headrace.ops.sampling.sample import BlockSampler
from headrace.pipeline.data.arrays import as_ids, as_rows, describe
from headrace.pipeline.data.digest import equal, sampled_digest
from headrace.pipeline.data.edge_attrs import EdgeAttrs
from headrace.pipeline.data.edge_weights import EdgeWeights
from headrace.pipeline.data.graph_sources import EdgeList, edges_from_dgl, edges_from_pyg, edges_from_scipy
from headrace.pipeline.data.type_offsets import TypeCounts, TypeOffsets, as_type_offsets, check_edge_ends

if TYPE_CHECKING:
    from headrace.pipeline.distributed.graph_shard import GraphShard
    from headrace.pipeline.partition.partition import Partition

Types = TypeOffsets | TypeCounts


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A directed graph: for each node the nodes that send it messages.

    The in-neighbours of node v are ``indices[indptr[v]:indptr[v + 1]]``. Build one with `from_coo`, `from_csc`,
    `from_scipy`, `from_pyg` or `from_dgl`. Graphs live in CPU memory in this version: tensors on another device are
    refused. Arrays that are already right are kept by reference, not copied: do not change them afterwards.

    Parameters
    ----------
    indptr: int64[num_nodes + 1]
    indices: int32[num_edges] or int64[num_edges]
        int32 when every node id fits.
    edge_permutation: int32[num_edges] or int64[num_edges], optional
        For each CSC position the input edge id; None when edges came in CSC order. `edge_ids` is never None.
    edge_attrs_csc
        Tensors of num_edges rows, in CSC order: row i belongs to ``indices[i]``. `edge_attrs` has them in input order.
    node_types, edge_types
        Ranges of the node ids, and of the *input* edge ids. Graphs with types are not sampled in this version; see
        `untyped`.

    Raises
    ------
    GraphError
        If an array has the wrong dtype, length or device, or there are no nodes.
    """

    indptr: Tensor
    indices: Tensor
    edge_permutation: Tensor | None = None
    edge_attrs_csc: Mapping[str, Tensor] = field(default_factory=dict)
    node_types: TypeOffsets | None = None
    edge_types: TypeOffsets | None = None

    def __post_init__(self) -> None:
        if self.indptr.dtype != torch.int64 or self.indptr.ndim != 1:
            raise GraphError(
                f"Graph: expected indptr of int64[num_nodes + 1], got {describe(self.indptr)}; convert it with .long()"
            )
        if self.indptr.numel() < 2:
            raise GraphError(
                "Graph: expected at least one node, got an empty graph; a graph may have no edges, but not no nodes"
            )
        arrays = {"indices": self.indices, "edge ids": self.edge_permutation}
        for name, ids in arrays.items():
            if ids is not None and (ids.dtype not in (torch.int32, torch.int64) or ids.ndim != 1):
                raise GraphError(f"Graph: expected {name} of int32 or int64[num_edges], got {describe(ids)}")
        if self.indptr.device.type != "cpu" or self.indices.device.type != "cpu":
            raise GraphError(
                f"Graph: expected indptr and indices in CPU memory, got {describe(self.indptr)} and "
                f"{describe(self.indices)}; pass .cpu() tensors: graphs are sampled from CPU memory in this version"
            )
        if self.edge_permutation is not None:
            as_rows(self.edge_permutation, self.num_edges, "edge_permutation", GraphError)
        check_csc(self.indptr, self.indices, self.num_nodes)
        attributes = _as_attributes(self.edge_attrs_csc, self.num_edges)
        object.__setattr__(self, "edge_attrs_csc", MappingProxyType(attributes))
        object.__setattr__(self, "node_types", as_type_offsets(self.node_types, self.num_nodes, "node_types"))
        object.__setattr__(self, "edge_types", as_type_offsets(self.edge_types, self.num_edges, "edge_types"))

    @classmethod
    def from_coo(
        cls,
        src: ArrayLike | Tensor,
        dst: ArrayLike | Tensor | None = None,
        *,
        num_nodes: int | None = None,
        edge_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        node_types: Types | None = None,
        edge_types: Types | None = None,
        num_threads: int | None = None,
    ) -> Graph:
        """Build a graph from a list of edges; messages go from ``src[i]`` to ``dst[i]``.

        Edges keep their input order within each destination; repeated edges and self-loops are kept, and
        ``graph.edge_ids`` leads back to the input order. ``graph.edge_attrs`` has the attributes as they were given.

        Parameters
        ----------
        src, dst: int32[num_edges] or int64[num_edges]
            Tensors or arrays in CPU memory, strided ones too. Other integer dtypes are refused. Of PyG's ``edge_index``
            they are the two rows, ``edge_index[0], edge_index[1]``.
        num_nodes
            Default: the largest id plus one. Say it, or trailing nodes without edges are missing.
        edge_attrs
            Arrays of num_edges rows, of any dtype, in input order.
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
        if dst is None or (isinstance(src, (Tensor, np.ndarray)) and src.ndim == 2 and len(src) == 2):
            came = describe(src) if isinstance(src, (Tensor, np.ndarray)) else type(src).__name__
            raise GraphError(
                f"Graph.from_coo: expected ids of sources and of destinations, got {came} as src"
                f"{' and no dst' if dst is None else ''}; of an edge_index pass both rows: "
                "from_coo(edge_index[0], edge_index[1], num_nodes=...)"
            )
        src, dst = as_ids(src, "src", GraphError), as_ids(dst, "dst", GraphError)
        if src.shape != dst.shape:
            raise GraphError(
                f"Graph.from_coo: expected src and dst of equal length, got {src.numel()} and {dst.numel()} ids"
            )
        if num_nodes is None:
            num_nodes = 1 + max((int(ids.max()) for ids in (src, dst) if ids.numel()), default=-1)
        if num_nodes < 1:
            raise GraphError(
                f"Graph.from_coo: expected at least one node, got num_nodes={num_nodes}; "
                "a graph may have no edges, but not no nodes: pass num_nodes= when there are no edges"
            )
        attributes = _as_attributes(edge_attrs, src.numel())
        node_types = as_type_offsets(node_types, num_nodes, "node_types")
        edge_types = as_type_offsets(edge_types, src.numel(), "edge_types")
        csc = coo_to_csc(src, dst, num_nodes, num_threads=num_threads)
        check_edge_ends(src, dst, node_types, edge_types)
        if csc.edge_ids is not None:
            attributes = {name: gather_rows(tensor, csc.edge_ids) for name, tensor in attributes.items()}
        return cls(csc.indptr, csc.indices, csc.edge_ids, attributes, node_types, edge_types)

    @classmethod
    def from_csc(
        cls,
        indptr: ArrayLike | Tensor,
        indices: ArrayLike | Tensor,
        *,
        edge_attrs: Mapping[str, ArrayLike | Tensor] | None = None,
        edge_ids: ArrayLike | Tensor | None = None,
        node_types: Types | None = None,
        edge_types: Types | None = None,
    ) -> Graph:
        """Take a graph that is in CSC form already: in-neighbours of v are ``indices[indptr[v]:indptr[v + 1]]``.

        int64 indices are narrowed to int32 by copy when all node ids fit; non-contiguous arrays are copied; all others
        are kept by reference.

        Parameters
        ----------
        indptr: int64[num_nodes + 1] or int32[num_nodes + 1]
        indices: int32[num_edges] or int64[num_edges]
        edge_attrs
            Arrays of num_edges rows in CSC order, as `indices`; not in the order that `edge_ids` speaks of. Of another
            graph that is its ``edge_attrs_csc``, not its ``edge_attrs``.
        edge_ids: int32[num_edges] or int64[num_edges], optional
            A permutation: the id of each CSC position's edge in your own edge order. Default: the position.

        Raises
        ------
        GraphError
            If indptr decreases or does not run from 0 to num_edges, indices are out of range, `edge_ids` is not a
            permutation, lengths or dtypes do not match, there are no nodes, tensors are not in CPU memory, or
            attributes are another graph's in input order.
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
        permutation = None if edge_ids is None else _as_permutation(edge_ids, indices.numel())
        return cls(
            indptr,
            indices,
            permutation,
            _as_attributes(edge_attrs, indices.numel()),
            as_type_offsets(node_types, num_nodes, "node_types"),
            as_type_offsets(edge_types, indices.numel(), "edge_types"),
        )

    @classmethod
    def from_scipy(cls, matrix: Any, *, num_threads: int | None = None) -> Graph:
        """Take a square scipy sparse matrix: entry (i, j) is an edge from i to j.

        Its value becomes the edge attribute "weight". Stored zeros are edges too. Edge ids count the stored entries in
        the order of ``matrix.tocoo()``.

        Raises
        ------
        GraphError
            If `matrix` is not a sparse matrix, not square, or empty.
        """
        return cls._from_edges(edges_from_scipy(matrix), num_threads)

    @classmethod
    def from_pyg(cls, data: Any, *, edge_attrs: Sequence[str] | None = None, num_threads: int | None = None) -> Graph:
        """Take the topology of a torch_geometric ``Data`` or ``HeteroData``.

        The node types of a ``HeteroData`` follow each other in one id space, in its own order, and so do the edges of
        its edge types: ``graph.node_types`` and ``graph.edge_types`` hold the ranges. Types are not sampled in this
        version: `untyped` gives the graph to sample, whose ids ``graph.node_types.global_ids(name, ids)`` finds.

        Parameters
        ----------
        edge_attrs
            Names of the edge attributes to take. Default: every edge-level tensor (``edge_attr``, ``edge_weight``, …),
            which all edge types must then have.

        Raises
        ------
        GraphError
            If `data` is neither class, has no ``edge_index``, or lacks an edge attribute, and as `from_coo`.
        """
        return cls._from_edges(edges_from_pyg(data, edge_attrs), num_threads)

    @classmethod
    def from_dgl(cls, graph: Any, *, edge_attrs: Sequence[str] | None = None, num_threads: int | None = None) -> Graph:
        """Take the topology of a ``dgl.DGLGraph``, homogeneous or heterogeneous; edge ids are DGL's.

        Types as in `from_pyg`, in the order of ``graph.ntypes`` and ``graph.canonical_etypes``.

        Parameters
        ----------
        edge_attrs
            Names of the edge features to take. Default: all in ``graph.edata``, which all edge types must then have.

        Raises
        ------
        GraphError
            If `graph` is not a DGL graph or lacks an edge feature, and as `from_coo`.
        """
        return cls._from_edges(edges_from_dgl(graph, edge_attrs), num_threads)

    @classmethod
    def _from_edges(cls, edges: EdgeList, num_threads: int | None) -> Graph:
        return cls.from_coo(
            edges.src,
            edges.dst,
            num_nodes=edges.num_nodes,
            edge_attrs=edges.edge_attrs,
            node_types=edges.node_types,
            edge_types=edges.edge_types,
            num_threads=num_threads,
        )

    def untyped(self) -> Graph:
        """Return the graph without its types: all nodes and edges are of one kind, and ids are global.

        Samplers refuse a graph with types, as they do not know about them in this version: fanouts would count edges of
        all types together, and seeds that count from 0 within their type would be taken for nodes of the first one.
        This says that it is meant. Items, features and labels are then those of the whole id space, where
        ``graph.node_types.global_ids("paper", ids)`` are the ids of papers. Arrays are shared, not copied. Do it before
        the graph is cut into shards, so that checkpoints of the whole graph and of shards are the same.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([0, 1], [2, 2], node_types={"author": 2, "paper": 1})
        >>> papers = graph.node_types.global_ids("paper", [0])
        >>> plan = hr.ItemSampler(papers, seed=0).sample_neighbor(graph.untyped(), [2])
        >>> [batch.n_id.tolist() for batch in plan.loader()]
        [[2, 0, 1]]
        """
        return replace(self, node_types=None, edge_types=None)

    def shard(self, partition: Partition, part: int | None = None) -> GraphShard:
        """Return the in-edges of the vertices that one rank owns; all other rows are empty.

        A loader over shards finds the same minibatches as one over the whole graph: with ``cooperative=True`` each rank
        samples only what it owns, otherwise the owners sample for the others, two rounds per hop. Edge ids stay those
        of the whole graph.

        Parameters
        ----------
        partition
            The owner of each vertex.
        part
            Whose rows to take; by default those of this process in torch.distributed.

        Raises
        ------
        GraphError
            If the partition is not one of this graph's vertices, there is no such part, or the graph has edge types.
        """
        from headrace.pipeline.distributed.comm import place_of_process
        from headrace.pipeline.distributed.graph_shard import shard

        return shard(self, partition, place_of_process(None, None)[0] if part is None else part)

    def reordered(self, order: ArrayLike | Tensor) -> Graph:
        """Return the graph with its vertices renumbered: vertex ``order[i]`` becomes vertex i.

        ``partition.order()`` puts vertices part by part, so that `Partition.ranges` replaces a table of owners.
        Features and items have to follow: row i of theirs is the old row ``order[i]``, and ``order.argsort()`` holds
        the new id of each vertex. Edge ids still lead to the edges as they were given, so edge features stay as they
        are. Picks depend on ids: sampled neighbourhoods are others, in law the same.

        Parameters
        ----------
        order: int32[num_nodes] or int64[num_nodes]
            Every vertex once.

        Raises
        ------
        GraphError
            If the order misses a vertex, the graph has node types, or it is a shard.
        """
        from headrace.pipeline.data.graph_order import reordered

        return reordered(self, order)

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.indptr.numel() - 1

    @property
    def num_edges(self) -> int:
        """Return the number of edges."""
        return self.indices.numel()

    @property
    def edge_attrs(self) -> Mapping[str, Tensor]:
        """Return the edge attributes in input order, as edge features are: ``FeatureStore(edge=graph.edge_attrs)``.

        Where edges came in another order than CSC, a look-up makes a copy, which is not kept: look up once.
        """
        return EdgeAttrs(self.edge_attrs_csc, self.edge_permutation)

    @property
    def edge_ids(self) -> Tensor:
        """Return the input edge id of each CSC position, int[num_edges] (made on each call when it is the identity)."""
        return torch.arange(self.num_edges) if self.edge_permutation is None else self.edge_permutation

    def original_edge_ids(self, positions: Tensor) -> Tensor:
        """Return the input edge ids of CSC positions, int64[n] -> int64[n]."""
        if self.edge_permutation is None:
            return positions
        return gather_rows(self.edge_permutation, positions).to(torch.int64)

    def block_sampler(self, weight: str | None = None) -> BlockSampler:
        """Return the graph's fused sampler, made on first use; loaders share it, and with it its scratch memory.

        Parameters
        ----------
        weight
            Edge attribute to sample by; None for uniform sampling.

        Raises
        ------
        GraphError
            If there is no such edge attribute, or it holds values that are negative, infinite or not numbers.
        """
        if weight not in self._block_samplers:
            weights = None if weight is None else self.edge_weights(weight)
            self._block_samplers[weight] = BlockSampler(
                self.indptr, self.indices, self.edge_permutation, weights, trust_weights=True
            )
        return self._block_samplers[weight]

    @property
    def scratch_bytes(self) -> int:
        """Bytes that the graph's fused samplers keep between minibatches."""
        return sum(sampler.scratch_bytes for sampler in self._block_samplers.values())

    @cached_property
    def _block_samplers(self) -> dict[str | None, BlockSampler]:
        return {}

    @cached_property
    def tables(self) -> dict[str, Any]:
        """Return the tables that stages made of this graph, by a name of their choice; they live as long as it does."""
        return {}

    def edge_weights(self, name: str) -> Tensor:
        """Return an edge attribute that can be sampled by: float32[num_edges] or float64[num_edges], in CSC order.

        Its values are looked at once in the life of the graph. Attributes of other dtypes are converted then, and the
        copy is kept: bool, half precision and integers of up to 16 bits to float32 (4 bytes per edge), wider integers
        to float64 (8 bytes; beyond 2**53 to the nearest). Samplers keep tables of the weights, so they must not change:
        this is refused where torch writes in place, at once, and where something else does, when a loader is made
        and a sample of the values shows it (below 4 MiB every value). Few changed values of many, written through
        NumPy, ``tensor.data`` or a memory map, go unnoticed; so do writes to an array that the graph has copied, but
        they have no effect.

        Raises
        ------
        GraphError
            If there is no such edge attribute, it is not one number per edge, it holds values that are negative,
            infinite or not numbers, or it was changed in place.
        """
        if name not in self.edge_attrs_csc:
            raise GraphError(
                f"Graph: there is no edge attribute {name!r} to sample by; those that exist are "
                f"{sorted(self.edge_attrs_csc) or 'none'}: pass edge_attrs={{{name!r}: ...}} when building the graph"
            )
        if name not in self._weights:
            self._weights[name] = EdgeWeights.of(self, name)
        weights = self._weights[name]
        weights.check_version()
        return weights.values

    def check_weights_unchanged(self, name: str) -> None:
        """Refuse an edge attribute that is no longer what `edge_weights` has checked; every new loader does.

        Raises
        ------
        GraphError
            If it was changed, as far as `edge_weights` tells.
        """
        self.edge_weights(name)
        self._weights[name].check_digest()

    @cached_property
    def _weights(self) -> dict[str, EdgeWeights]:
        return {}

    @cached_property
    def has_parallel_edges(self) -> bool:
        """Whether a node has several in-edges from one source; looked for once, on all cores."""
        return has_parallel_edges(self.indptr, self.indices)

    def in_degrees(self) -> Tensor:
        """Return the number of in-neighbours of each node, int64[num_nodes]."""
        return self.indptr.diff()

    def content_digest(self) -> str:
        """Return a fingerprint of structure, edge ids, attributes and types (computed once).

        Arrays above 4 MiB are sampled (`headrace.pipeline.data.digest.sampled_digest`), so it tells graphs apart that
        are different data sets; it does not prove that two files are equal.
        """
        return self._content_digest

    @cached_property
    def _content_digest(self) -> str:
        arrays = [("indptr", self.indptr), ("indices", self.indices)]
        if self.edge_permutation is not None:
            arrays.append(("edge_ids", self.edge_permutation))
        arrays += [(f"edge_attrs/{name}", self.edge_attrs_csc[name]) for name in sorted(self.edge_attrs_csc)]
        for what, types in (("node_types", self.node_types), ("edge_types", self.edge_types)):
            if types is not None:
                arrays.append((f"{what}/{types.names}", types.offsets))
        return sampled_digest(arrays)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return self is other or (
            equal(self.indptr, other.indptr)
            and equal(self.indices, other.indices)
            and equal(self.edge_permutation, other.edge_permutation)
            and self.edge_attrs_csc.keys() == other.edge_attrs_csc.keys()
            and all(equal(rows, other.edge_attrs_csc[name]) for name, rows in self.edge_attrs_csc.items())
            and self.node_types == other.node_types
            and self.edge_types == other.edge_types
        )

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.num_edges))

    def __reduce__(self) -> tuple[type[Graph], tuple[Any, ...]]:
        # Neither read-only views of mappings nor the sampler kept with the graph can be pickled, nor need they be.
        return type(self), (
            self.indptr,
            self.indices,
            self.edge_permutation,
            dict(self.edge_attrs_csc),
            self.node_types,
            self.edge_types,
        )

    def __repr__(self) -> str:
        parts = [f"num_nodes={self.num_nodes}", f"num_edges={self.num_edges}"]
        if self.edge_attrs_csc:
            parts.append(f"edge_attrs={list(self.edge_attrs_csc)}")
        for what, types in (("node_types", self.node_types), ("edge_types", self.edge_types)):
            if types is not None:
                parts.append(f"{what}={list(types.names)}")
        return f"Graph({', '.join(parts)})"


def _as_attributes(edge_attrs: Mapping[str, ArrayLike | Tensor] | None, num_edges: int) -> dict[str, Tensor]:
    given = edge_attrs or {}
    return {name: as_rows(given[name], num_edges, f"edge_attrs[{name!r}]", GraphError) for name in given}


def _as_permutation(edge_ids: ArrayLike | Tensor, num_edges: int) -> Tensor:
    ids = as_ids(edge_ids, "edge_ids", GraphError).contiguous()
    if ids.numel() != num_edges:
        raise GraphError(f"Graph.from_csc: expected edge_ids for {num_edges} edges, got {ids.numel()}")
    if num_edges:
        low, high = (int(value) for value in torch.aminmax(ids))
        in_range = low >= 0 and high < num_edges
        seen = torch.zeros(num_edges, dtype=torch.bool)
        if in_range:
            seen[ids.long()] = True
        if not bool(seen.all()):
            raise GraphError(
                f"Graph.from_csc: expected edge_ids to be a permutation of 0 to {num_edges - 1}, got ids from {low} to "
                f"{high}{' with repeats' if in_range else ''}; keep other keys of your edges as an edge attribute"
            )
    return ids
