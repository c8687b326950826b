"""What a graph and a part of one have in common: the in-edges that are at hand, and the size of the whole."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import Self

from headrace.ops import InputError, check_csc, gather_rows, has_parallel_edges
from headrace.ops.forks import cached_property
from headrace.ops.gpu import device_of
from headrace.ops.names import no_attribute_of
from headrace.pipeline.data.arrays import as_rows, check_kind, describe, refuse_gradient
from headrace.pipeline.data.digest import equal
from headrace.pipeline.data.edge_attrs import attributes_by_name
from headrace.pipeline.data.graph_machinery import Kept, arrays_on
from headrace.pipeline.data.node_ids import check_node_ids
from headrace.pipeline.data.shared_memory import sent_shared, share_graph
from headrace.pipeline.data.types import TypeOffsets, as_type_offsets

View = TypeVar("View", bound="GraphView")

#: What to do with arrays that are no CSC form: edges are the usual ones.
_OTHER_FORMS = "hr.Graph.from_coo(src, dst) takes edges, hr.Graph.from_csc(indptr, indices) arrays"


def _made_otherwise(name: str) -> str | None:
    from headrace.pipeline.data.graph_words import MADE_OTHERWISE  # for an error that is read

    return MADE_OTHERWISE.get(name)


class _GraphType(ABCMeta):
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> NoReturn:
            raise no_attribute_of(cls, f"type object {cls.__name__!r}", name, _made_otherwise)


@dataclass(frozen=True, eq=False, repr=False)
class GraphView(metaclass=_GraphType):
    """In-edges in CSC form: those of a whole graph (`hr.Graph`), or those of a part's nodes (`GraphShard`).

    Node ids and edge ids are those of the whole graph. Arrays have `num_local_edges` entries, features of edges
    `num_edges` rows; a whole graph has as many of both.
    """

    indptr: Tensor
    indices: Tensor
    edge_permutation: Tensor | None = None
    edge_attrs_csc: Mapping[str, Tensor] = field(default_factory=dict)
    node_types: TypeOffsets | None = None
    edge_types: TypeOffsets | None = None
    node_ids: Tensor | None = None
    node_attrs: Mapping[str, Tensor] = field(default_factory=dict)
    edge_times: Tensor | None = None
    _kept: Kept = field(default_factory=Kept, init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        sent_shared(cls, share_graph)

    def __post_init__(self) -> None:
        if not (isinstance(self.indptr, Tensor) and isinstance(self.indices, Tensor)):
            raise InputError(
                f"Graph: expected tensors in CSC form, got {type(self.indptr).__name__} and "
                f"{type(self.indices).__name__}; {_OTHER_FORMS}"
            )
        if self.indptr.dtype != torch.int64 or self.indptr.ndim != 1:
            raise InputError(
                f"Graph: expected indptr of int64[num_nodes + 1], got {describe(self.indptr)}; convert it with .long()"
            )
        if self.num_nodes < 1:
            raise InputError(
                "Graph: expected at least one node, got none; a graph may be without edges, but not without nodes"
            )
        for name, ids in (("indices", self.indices), ("edge ids", self.edge_permutation)):
            if ids is not None and (ids.dtype not in (torch.int32, torch.int64) or ids.ndim != 1):
                raise InputError(f"Graph: expected {name} of int32 or int64[num_edges], got {describe(ids)}")
        if self.indptr.device.type != "cpu" or self.indices.device.type != "cpu":
            raise InputError(
                f"Graph: expected indptr and indices in CPU memory, got {describe(self.indptr)} and "
                f"{describe(self.indices)}; pass .cpu() tensors: graphs are sampled from CPU memory in this version"
            )
        if self.edge_permutation is not None:
            as_rows(self.edge_permutation, self.num_local_edges, "edge_permutation")
        first, last = int(self.indptr[0]), int(self.indptr[-1])
        if (first, last) != (0, self.num_local_edges):
            raise InputError(
                f"Graph: expected indptr to run from 0 to the number of indices, {self.num_local_edges}, "
                f"got {first} to {last}; {_OTHER_FORMS}"
            )
        own = self._own_nodes
        check_csc(self.indptr, self.indices, self.num_nodes, num_rows=None if own is None else len(own))
        attributes = as_attributes(self.edge_attrs_csc, self.num_local_edges)
        object.__setattr__(self, "edge_attrs_csc", attributes_by_name(attributes))
        of_nodes = as_attributes(self.node_attrs, self.num_nodes, "node")
        object.__setattr__(self, "node_attrs", attributes_by_name(of_nodes, "node"))
        object.__setattr__(self, "node_types", as_type_offsets(self.node_types, self.num_nodes, "node_types"))
        object.__setattr__(self, "edge_types", as_type_offsets(self.edge_types, self.num_edges, "edge_types"))
        if self.node_ids is not None:
            check_node_ids(self.node_ids, self.num_nodes, self.node_types)

    @property
    @abstractmethod
    def num_edges(self) -> int:
        """Return the number of edges of the whole graph."""

    @abstractmethod
    def content_digest(self) -> str:
        """Return a fingerprint of the whole graph."""

    @property
    def num_nodes(self) -> int:
        """Return the number of nodes."""
        return self.indptr.numel() - 1

    @property
    def _own_nodes(self) -> Tensor | None:
        """The nodes whose rows `indptr` bounds, int64[num_own] ascending; None where these are all nodes."""
        return None

    @property
    def num_local_edges(self) -> int:
        """Return the number of edges in this process: those of `indices` and of attributes in CSC order."""
        return self.indices.numel()

    @property
    def edge_ids(self) -> Tensor:
        """Return the input edge id of each CSC position, int[num_local_edges]; in CSC order a new range."""
        ids = self.edge_permutation
        return torch.arange(self.num_local_edges, device="cpu") if ids is None else ids

    def untyped(self) -> Self:
        """Return the graph without its types: all nodes and edges have one kind, and ids are global.

        Fanouts then count edges of all types together. Items, features and labels use the whole id space, where
        ``graph.node_types.global_ids("paper", ids)`` are the ids of papers. Arrays are shared, not copied. Call it
        before the graph is partitioned into shards, so that checkpoints of the whole graph and of shards are the same.

        >>> import headrace as hr
        >>> graph = hr.Graph.from_coo([0, 1], [2, 2], node_types={"author": 2, "paper": 1})
        >>> papers = graph.node_types.global_ids("paper", [0])
        >>> plan = hr.ItemSampler(papers, seed=0).sample_neighbor(graph.untyped(), [2])
        >>> [batch.n_id.tolist() for batch in plan.loader()]
        [[2, 0, 1]]
        """
        return replace(self, node_types=None, edge_types=None)

    def by_time(self, name: str) -> Self:
        """Return the graph with each row sorted by time, for temporal samplers; computed once, then kept.

        If both edges and nodes have times of this name (edge attributes, node attributes), the time of an edge is the
        later of its own and that of its source. Edges with equal times keep their order, and edge ids stay unchanged.
        If rows are sorted already, all arrays are shared, otherwise copied.

        Parameters
        ----------
        name
            Of an edge attribute, a node attribute, or both: integers, or floating point without NaN.

        Returns
        -------
        Graph
            Its `edge_times`, int64[num_edges] in CSC order, are the times; floating-point times become integers in the
            same order.

        Raises
        ------
        InputError
            If there are no times of this name, they are not times, are integers for edges but not for nodes, or were
            written.
        """
        from headrace.pipeline.data.times import sorted_by_time, table_of_times

        timed: Self = table_of_times(self, name, "by time", lambda: sorted_by_time(self, name))
        return timed

    def original_edge_ids(self, positions: Tensor) -> Tensor:
        """Return the input edge ids of CSC positions, int64[n] -> int64[n]."""
        if self.edge_permutation is None:
            return positions
        device = device_of(positions)
        if device is not None:
            edge_ids = arrays_on(self, device).edge_ids
            assert edge_ids is not None
            return gather_rows(edge_ids, positions, trusted=True).to(torch.int64)
        return gather_rows(self.edge_permutation, positions).to(torch.int64)

    def to_graph_ids(self, ids: Tensor) -> Tensor:
        """Return the graph's own ids of nodes, int64[n], for their ids outside the graph (`node_ids`)."""
        return ids if self.node_ids is None else gather_rows(self._graph_ids, ids)

    def to_original_ids(self, ids: Tensor) -> Tensor:
        """Return the ids of nodes outside the graph, int64[n], for the graph's own."""
        return ids if self.node_ids is None else gather_rows(self.node_ids, ids)

    def by_original_ids(self, values: Tensor) -> Tensor:
        """Return values of nodes, [num_nodes] in the order of the graph's own ids, in the order of the original ids."""
        return values if self.node_ids is None else gather_rows(values, self._graph_ids)

    @cached_property
    def _graph_ids(self) -> Tensor:
        assert self.node_ids is not None  # asked of graphs that have them
        return torch.empty_like(self.node_ids).scatter_(0, self.node_ids, torch.arange(self.num_nodes, device="cpu"))

    def edge_weights(self, name: str) -> Tensor:
        """Return an edge attribute as sampling weights: float32[num_edges] or float64[num_edges], in CSC order.

        Its values are checked once in the life of the graph. Attributes of other dtypes are converted then, and the
        copy is kept: bool, half precision and integers of up to 16 bits to float32 (4 bytes per edge), wider integers
        to float64 (8 bytes; beyond 2**53 to the nearest). Samplers keep tables of the weights, so weights must not
        change. A write by torch in place is refused at the next batch. Other writes (NumPy, ``tensor.data``, a memory
        map) are refused when an epoch begins or ends: every value is compared up to 1 GiB, above it a sample. Writes
        to an array that the graph has copied have no effect.

        Raises
        ------
        InputError
            If there is no such edge attribute, it is not one number per edge, it holds values that are negative,
            infinite or not numbers, or it was changed in place.
        """
        if not isinstance(name, str) or name not in self.edge_attrs_csc:
            raise InputError(
                f"Graph: there is no edge attribute {name!r} to sample by; those that exist are "
                f"{sorted(self.edge_attrs_csc) or 'none'}: pass edge_attrs={{{name!r}: ...}} when building the graph"
            )
        weights = self._kept.weights.get(name)
        if weights is None:
            from headrace.pipeline.data.edge_weights import EdgeWeights

            weights = self._kept.weights[name] = EdgeWeights.of(self, name)
        weights.seen.check_version()
        return weights.values

    def share_memory(self) -> Self:
        """Move the arrays to shared memory, once, and return the graph.

        `torch.multiprocessing` does so when it sends the graph to other processes (arguments of ``spawn``, a queue,
        workers of a DataLoader): all share one copy of its arrays. Loaders that run meanwhile keep their memory.
        Tensors from which the graph was built stay in place, and are freed with their last user.

        Raises
        ------
        InputError
            If an edge attribute was changed in place after it was used as sampling weights.
        """
        share_graph(self)
        return self

    @property
    def is_typed(self) -> bool:
        """Whether nodes or edges have types."""
        return self.node_types is not None or self.edge_types is not None

    @cached_property
    def has_parallel_edges(self) -> bool:
        """Whether a node has several in-edges from one source; checked once, on all cores."""
        return has_parallel_edges(self.indptr, self.indices)

    def in_degrees(self) -> Tensor:
        """Return the number of in-neighbours of each node, int64[num_nodes]."""
        return self.indptr.diff()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            from headrace.pipeline.data.graph_words import missing

            raise missing(self, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphView):
            return NotImplemented
        return self is other or (
            equal(self.indptr, other.indptr)
            and equal(self._own_nodes, other._own_nodes)
            and equal(self.indices, other.indices)
            and equal(self.edge_permutation, other.edge_permutation)
            and self.edge_attrs_csc.keys() == other.edge_attrs_csc.keys()
            and all(equal(rows, other.edge_attrs_csc[name]) for name, rows in self.edge_attrs_csc.items())
            and self.node_types == other.node_types
            and self.edge_types == other.edge_types
            and equal(self.node_ids, other.node_ids)
            and self.node_attrs.keys() == other.node_attrs.keys()
            and all(equal(rows, other.node_attrs[name]) for name, rows in self.node_attrs.items())
        )

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.num_edges))


def as_attributes(attrs: Mapping[str, ArrayLike | Tensor] | None, num_rows: int, of: str = "edge") -> dict[str, Tensor]:
    """Return attributes of edges, or of nodes, as tensors of a row for each, or refuse them."""
    given = {} if attrs is None else attrs
    check_kind(given, Mapping, f"Graph: expected {of}_attrs to be a dictionary", "pass {name: values}", InputError)
    for name, array in given.items():
        refuse_gradient(array, f"{of}_attrs[{name!r}]", "batch.e_id" if of == "edge" else "batch.n_id")
    return {name: as_rows(given[name], num_rows, f"{of}_attrs[{name!r}]", each=of) for name in given}
