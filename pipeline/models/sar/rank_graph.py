"""What a rank's part of a graph is, beside what layers do with it."""

from __future__ import annotations

from collections.abc import Mapping
from traceback import format_exception
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import Self

from headrace.ops import InputError, PeerError, gather_rows, gather_rows_with_grad
from headrace.ops.aggregate.precision import widened
from headrace.pipeline.data.edge_attrs import attributes_by_name
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.models.message_graph import WholeGraph
from headrace.pipeline.models.sar.derived import TypedEdges
from headrace.pipeline.models.sar.rank_edges import RankEdges
from headrace.pipeline.models.sar.reductions import check_edges
from headrace.pipeline.models.sar.round_passes import Shards
from headrace.pipeline.models.sar.transfer import Counts

#: What a DGLGraph has and a part of a graph has not: a layer gets a graph that has it.
_OF_DGL = {"srcdata", "dstdata", "ndata", "edata", "local_scope", "local_var", "apply_edges", "apply_nodes"}


class RankGraph(WholeGraph):
    """Nodes, edges and degrees of a rank, and rows for them; `ShardedGraph` documents its attributes.

    Parameters
    ----------
    edges
        The in-edges of owned nodes.
    comm
        The channel; None for one process.
    counts
        What is counted.
    """

    def __init__(self, edges: RankEdges, comm: Comm | None, counts: Counts) -> None:
        self.comm, self.counts = comm, counts
        self.rank, self.world_size = (0, 1) if comm is None else (comm.rank, comm.world_size)
        self.owned, self.edge_ids = edges.owned, edges.edge_ids
        self.edge_attrs: Mapping[str, Tensor] = attributes_by_name(edges.edge_attrs)
        self.num_nodes, self.num_all_edges = edges.num_nodes, edges.num_all_edges
        self._edges = edges
        self._rounds = edges.rounds
        self._looped: Self | None = None
        self._typed: list[tuple[Tensor, int, TypedEdges]] = []

    def _over(self, edges: RankEdges) -> Self:
        """Return the graph over other edges."""
        other = object.__new__(type(self))
        RankGraph.__init__(other, edges, self.comm, self.counts)
        return other

    def to(self, device: torch.device | str) -> Self:
        """Return the graph for rows on another device; with gloo they are exchanged through CPU memory."""
        return self._over(self._edges.map(lambda tensor: tensor.to(device)))

    @property
    def num_src(self) -> int:
        """Return the number of nodes that this rank owns."""
        return len(self.owned)

    @property
    def num_dst(self) -> int:
        """Return the number of nodes that this rank owns."""
        return len(self.owned)

    @property
    def num_edges(self) -> int:
        """Return the number of their in-edges."""
        return self._rounds.num_edges

    def in_degrees(self) -> Tensor:
        """Return the number of in-edges of each owned node, int64[num_dst]."""
        return self._edges.in_degrees

    def out_degrees(self) -> Tensor:
        """Return the number of out-edges of each owned node, to any rank: int64[num_src]."""
        return self._edges.out_degrees

    @property
    def each_has_edges(self) -> bool:
        """Whether every node of the whole graph has an in-edge."""
        return self._edges.each_has_edges

    @property
    def has_replaced_loops(self) -> bool:
        """Whether `num_edges` counts loops that others have replaced."""
        return self._edges.replaced is not None and len(self._edges.replaced) > 0

    @property
    def rematerialises(self) -> bool:
        """Whether rows of other ranks are received again in the backward pass, and not kept until then."""
        return self.world_size > 1 and self._rounds.mode == "sar"

    @property
    def self_loops(self) -> Tensor:
        """Return the positions of this rank's edges from a node to itself: int64[n], ascending."""
        return self._edges.loops

    @property
    def origin(self) -> object:
        """Return the object that a graph has in common with those made of it."""
        return self.counts

    @property
    def parts(self) -> Shards:
        """Return the edges as functions of messages are computed for them."""
        return Shards(self._rounds, self.edge_ids)

    @property
    def destinations(self) -> Tensor:
        """Return the row of the destination of each edge, int64[num_edges]."""
        return self._edges.destinations

    def rows(self, values: ArrayLike | Tensor) -> Tensor:
        """Return the rows of this rank's nodes.

        Parameters
        ----------
        values: [num_nodes, ...]
            Values of all nodes: features, labels or masks; for example a memory map. A tensor that requires gradients,
            such as embeddings, gets them.

        Raises
        ------
        InputError
            For another number of rows.
        """
        return _taken(values, self.owned, self.num_nodes, "ShardedGraph.rows: values", "node")

    def edge_rows(self, values: ArrayLike | Tensor) -> Tensor:
        """Return the rows of this rank's edges, from values of all edges in input edge order.

        Raises
        ------
        InputError
            For another number of rows.
        """
        return _taken(values, self.edge_ids, self.num_all_edges, "ShardedGraph.edge_rows: values", "edge")

    def total(self, number: float) -> float:
        """Return the sum of a number over all ranks; all of them call it."""
        if self._rounds.transfer.comm is None:
            return float(number)
        with self._rounds.transfer.doing("a total"):
            return float(
                self._rounds.transfer.comm.all_reduce_sum(torch.tensor([number], dtype=torch.float64, device="cpu"))
            )

    def with_self_loops(self) -> Self:
        """Return the graph with one loop at each node, in place of any existing loops; nothing is exchanged.

        In arrays of edges the entries of the loops follow all others, in the order of `owned`: entry ``num_edges + i``
        belongs to ``owned[i]``, and its id is the number of all edges plus the id of the node. Entries of replaced
        loops stay and are ignored. The new graph has no edge attributes.
        """
        if self._looped is None:
            self._looped = self._over(self._edges.with_loops())
        return self._looped

    def over(self, num_dst: int) -> Self:
        """Return the graph itself, the destinations of which are the nodes that this rank owns.

        Raises
        ------
        InputError
            If others are expected.
        """
        if num_dst != self.num_dst:
            raise InputError(f"expected a row for each of the {self.num_dst} nodes that this rank owns, got {num_dst}")
        return self

    def by_type(self, types: Tensor, num_types: int) -> TypedEdges:
        """Return the edges by type, for relational layers; the last result is cached.

        Parameters
        ----------
        types: integer[num_edges]
            The type of each of this rank's edges; types of ignored entries do not matter.
        num_types
            Types.
        """
        for known, version, typed in self._typed:
            if known is types and version == types._version and len(typed.sizes) == num_types:  # noqa: SLF001
                return typed
        typed = TypedEdges(self._rounds, self._edges.destinations, types, num_types, self._edges.replaced)
        self._typed = [*self._typed[-1:], (types, types._version, typed)]  # noqa: SLF001
        return typed

    def sum_edges(self, values: Tensor) -> Tensor:
        """Return the sums of values of in-edges, [num_edges, ...] to [num_dst, ...]; gradients flow back."""
        self._check_edges(values, "values")
        values = widened(values)
        if self._edges.replaced is not None:
            values = values.index_fill(0, self._edges.replaced, 0)
        return values.new_zeros(self.num_dst, *values.shape[1:]).index_add(0, self._edges.destinations, values)

    def _check_edges(self, values: Tensor | None, name: str) -> None:
        check_edges(values, self.num_edges, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            report(error, self.comm)

    if not TYPE_CHECKING:  # types know of no other names

        def __getattr__(self, name: str) -> NoReturn:
            if name in _OF_DGL:
                raise InputError(
                    f"ShardedGraph: expected a layer of DGL that hr.sar.wrap has replaced to ask for {name}, got this "
                    "graph itself, or a layer that torch.compile has taken before; pass what a DGLGraph would hold as "
                    "arguments, and compile the model that hr.sar.wrap returns"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __deepcopy__(self, memo: object) -> Self:
        return self  # models that know their graph can be copied; it is never changed

    def __reduce__(self) -> NoReturn:
        raise InputError("ShardedGraph: one rank's end of a channel cannot be pickled; make it anew from the graph")

    def __repr__(self) -> str:
        shape = f"{self.num_dst} of {self.num_nodes} nodes, {self.num_edges} of {self.num_all_edges} edges"
        rounds = self._rounds
        return (
            f"ShardedGraph(rank {self.rank} of {self.world_size}: {shape}, {rounds.mode}, prefetch={rounds.prefetch})"
        )


def report(error: BaseException, comm: Comm | None) -> None:
    """Let the other ranks know why this one does not go on; not of an error that came from one of them."""
    if comm is not None and not isinstance(error, PeerError):
        comm.fail("".join(format_exception(error)))


def _taken(values: ArrayLike | Tensor, ids: Tensor, num_rows: int, name: str, what: str) -> Tensor:
    table = values if isinstance(values, Tensor) else torch.as_tensor(values, device="cpu")
    if table.shape[:1] != (num_rows,):
        raise InputError(f"{name}: expected a row for each of the {num_rows} {what}s, got {list(table.shape)}")
    gather = gather_rows_with_grad if table.requires_grad else gather_rows
    return gather(table, ids.to(table.device), num_threads=torch.get_num_threads())
