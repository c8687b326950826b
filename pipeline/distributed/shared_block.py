"""One layer of a batch whose edges ranks share: each holds some edges, and rows go between masters and mirrors."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from headrace.ops import InputError, Transposed, transpose_csc
from headrace.ops.aggregate.precision import as_narrow_as, dtype_of_sums, in_single
from headrace.ops.forks import cached_property
from headrace.pipeline.data.arrays import describe
from headrace.pipeline.data.registry import registered
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.edge_index import EdgeIndex
from headrace.pipeline.distributed.mirrors import Mirrors
from headrace.pipeline.distributed.shared_aggregation import aggregate
from headrace.pipeline.distributed.shared_attention import attend

if TYPE_CHECKING:
    from headrace.ops.aggregate.autograd import Reduce

_REMEDY = (
    "it needs all in-edges of a node in one place, but the ranks share them: use layers of hr.nn or PyG in "
    "hr.cooperative(model), or block.aggregate and block.attend, or let the ranks cooperate by a partition of nodes, "
    ".loader(cooperative=True, partition=edge_partition.nodes)"
)

_INSIDE = "; layers of PyG that take it belong in hr.cooperative(model), whose layers exchange what they need of it"


def _is_narrow(x: Any) -> bool:
    """Whether rows are of half precision, which is added up in float32."""
    return isinstance(x, Tensor) and dtype_of_sums(x) != x.dtype


@dataclass(frozen=True, eq=False)
class LocalEdges:
    """The edges of a layer that a rank holds: destination i of those that it mirrors has edges indptr[i] to [i + 1].

    Parameters
    ----------
    indptr: int64[num_mirrored_destinations + 1]
    indices: int[num_edges]
        Among the sources that the rank mirrors.
    positions: int64[num_edges]
        Where the edges are in the whole graph: what edges are called on all ranks.
    num_src
        How many sources it mirrors.
    """

    indptr: Tensor
    indices: Tensor
    positions: Tensor
    num_src: int

    @cached_property
    def transposed(self) -> Transposed:
        """The edges by source, as gradients need them; made when first asked for, and kept."""
        return transpose_csc(self.indptr, self.indices, self.num_src, num_threads=torch.get_num_threads())

    def __reduce__(self) -> tuple[type[LocalEdges], tuple[Any, ...]]:
        # Without `transposed`, which is made anew.
        return type(self), (self.indptr, self.indices, self.positions, self.num_src)


@dataclass(frozen=True, eq=False, repr=False)
class SharedBlock:
    """Messages of one layer over edges that ranks share by an `EdgePartition` (GraphTheta, arXiv 2104.10569).

    It is to layers of `hr.nn` what a `Block` is, a `MessageGraph`; those of PyG take its `edge_index`. Rows are those
    of the nodes whose master this rank is, the destinations first. To aggregate, masters send rows to their mirrors,
    which are the ranks that hold out-edges of a node in this layer; each rank reduces over its edges, and what it found
    goes to the masters of the destinations, who merge it in the order of the ranks, their own first. That is one
    message for each pair of ranks each way, in the forward direction and in the backward one, however many edges they
    have in common.

    All ranks call the same methods in the same order, whatever their share.

    Parameters
    ----------
    num_src, num_dst
        Rows of the layer's input and output on this rank.
    edges
        The edges that this rank holds.
    sources, destinations
        Mirrors of the nodes of the input and of the output.
    comm
        The channel of the model.
    batch: (epoch, batch), optional
        The batch that it belongs to, of which ranks make sure when they exchange rows.
    edge_ids: int64[num_edges], optional
        Each edge's id in the graph's input edge order.
    """

    num_src: int
    num_dst: int
    edges: LocalEdges
    sources: Mirrors
    destinations: Mirrors
    comm: Comm
    batch: tuple[int, int] | None = None
    edge_ids: Tensor | None = None

    @property
    def num_edges(self) -> int:
        """Edges that this rank holds: entries of weights and scores of edges."""
        return self.edges.indices.numel()

    @property
    def weight(self) -> None:
        """Importance weights: there are none, as nothing is sampled."""
        return

    def aggregate(self, x: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the reduced messages ``weight[e] * x[source of e]`` of each destination that this rank is master of.

        Parameters
        ----------
        x: [num_src, ...]
            Of float16, bfloat16, float32 or float64. Ranks send and add up the half types in float32.
        reduce : {"sum", "mean", "max", "min"}
            A mean divides by the number of edges, or by the sum of the weights where there are any. Of equal extremes
            the edge that comes first in the graph has the gradient. Without edges a destination has 0.
        weight: [num_edges] or [num_edges, heads], optional
            Of the edges that this rank holds; for heads the rows of `x` are [heads, ...].

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            For other shapes, or another `reduce`. Nothing is sent then.
        PeerError
            If another rank failed or was lost.
        """
        if _is_narrow(x):
            wide = self.aggregate(in_single(x), reduce=reduce, weight=in_single(weight))
            return as_narrow_as(wide, x)
        if reduce not in ("sum", "mean", "max", "min"):
            raise InputError(f'aggregate: expected reduce "sum", "mean", "max" or "min", got {reduce!r}')
        self._check("aggregate", "x", x, self.num_src, "node of the layer that this rank is master of")
        heads = 1
        if weight is not None:
            heads = weight.shape[1] if weight.ndim == 2 else 1
            self._check("aggregate", "weight", weight, self.num_edges, "edge that this rank holds", like=x)
            if weight.ndim > 2 or (weight.ndim == 2 and x.shape[1:2] != weight.shape[1:]):
                raise InputError(
                    f"aggregate: expected weight of [num_edges] or [num_edges, heads] and x of [num_src, heads, ...], "
                    f"got {describe(weight)} and {describe(x)}"
                )
            weight = weight.reshape(self.num_edges, heads)
        rows = x.reshape(self.num_src, heads, math.prod(x.shape[1:]) // max(heads, 1))
        return aggregate(self, rows, reduce, weight).view(self.num_dst, *x.shape[1:])

    def attend(
        self,
        x: Tensor,
        source_scores: Tensor,
        destination_scores: Tensor,
        *,
        edge_scores: Tensor | None = None,
        slope: float = 0.2,
        dropout: float = 0.0,
        key: int = 0,
    ) -> Tensor:
        """Return the sums of ``x`` over in-edges, by the softmax of ``leaky_relu`` of the three scores added up (GAT).

        Scores of sources go with the rows of `x`; what mirrors send back are the largest score, the sum of exponentials
        and the sum of rows by them, so the softmax is that over all edges of a destination.

        Parameters
        ----------
        x: [num_src, heads, ...]
            Of float16, bfloat16, float32 or float64.
        source_scores: [num_src, heads]
        destination_scores: [num_dst, heads]
        edge_scores: [num_edges, heads], optional
            Of the edges that this rank holds.
        slope
            Of negative scores.
        dropout
            The probability that an edge and head does not count; its masks depend on `key` and the id of the edge, so
            all ranks give one key.

        Returns
        -------
        Tensor
            [num_dst, heads, ...].

        Raises
        ------
        InputError, PeerError
            As for `aggregate`; for dropout also if the edges have no ids.
        """
        if _is_narrow(x):
            wide = self.attend(
                in_single(x),
                in_single(source_scores),
                in_single(destination_scores),
                edge_scores=in_single(edge_scores),
                slope=slope,
                dropout=dropout,
                key=key,
            )
            return as_narrow_as(wide, x)
        mastered = "node of the layer that this rank is master of"
        self._check("attend", "x", x, self.num_src, mastered)
        self._check("attend", "source_scores", source_scores, self.num_src, mastered, like=x)
        self._check("attend", "destination_scores", destination_scores, self.num_dst, "destination of these", like=x)
        scores = [source_scores, destination_scores]
        if edge_scores is not None:
            self._check("attend", "edge_scores", edge_scores, self.num_edges, "edge that this rank holds", like=x)
            scores.append(edge_scores)
        if x.ndim < 2 or any(one.ndim != 2 or one.shape[1] != x.shape[1] for one in scores):
            shapes = ", ".join(map(describe, (x, *scores)))
            raise InputError(f"attend: expected x of [num_src, heads, ...] and scores of [..., heads], got {shapes}")
        if dropout > 0 and self.edge_ids is None:
            raise InputError(
                "attend: dropout goes by the ids of edges, and the block has none; sample with edge_ids=True"
            )
        rows = x.reshape(self.num_src, x.shape[1], math.prod(x.shape[2:]))
        out = attend(self, rows, source_scores, destination_scores, edge_scores, slope, dropout, key)
        return out.view(self.num_dst, *x.shape[1:])

    def update_all(
        self,
        message: Callable[..., Tensor],
        x: Tensor,
        *,
        reduce: Reduce = "sum",
        destination: Tensor | None = None,
        edge: Tensor | None = None,
        parameters: Iterable[Tensor] = (),
    ) -> Tensor:
        """Return the reduced messages of your own function.

        ``message(source_rows, destination_rows, edge_rows)`` is called for the edges that this rank holds, as
        `hr.sar.ShardedGraph.update_all` calls it, and once more in the backward pass. A message must depend on the rows
        of its edge alone, and on parameters; operations that look at other edges are refused. Masks of dropout belong
        to edges.

        Parameters
        ----------
        message
            The function; the rows that are not passed are None.
        x: [num_src, ...]
            Rows of the nodes that this rank is master of.
        reduce
            As for `aggregate`; but equal extremes share the gradient evenly.
        destination: [num_dst, ...], optional
            Rows of the destinations that this rank is master of.
        edge: [num_edges, ...], optional
            Rows of the edges that this rank holds.
        parameters
            Not needed: what the function uses is seen.

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            For messages that cannot be computed so, with the line; for other shapes.
        PeerError
            If another rank failed or was lost.
        """
        del parameters
        out: Tensor = registered("update_all_of_ranks")(self, message, x, reduce, destination, edge)
        return out

    def self_loops(self) -> Tensor:
        """Return how many edges each destination has from itself, int64[num_dst]: its master holds them all."""
        edges, num_own = self.edges, self.destinations.num_own
        targets = self.destinations.rows[:num_own].repeat_interleave(edges.indptr[: num_own + 1].diff())
        indices = edges.indices[: len(targets)].long()
        mastered = indices < self.sources.num_own
        # Destinations are the first of the sources, so a node has one row on both sides.
        is_loop = self.sources.rows[indices[mastered]] == targets[mastered]
        return torch.bincount(targets[mastered][is_loop], minlength=self.num_dst)

    def _check(
        self, method: str, name: str, rows: Tensor, expected: int, what: str, *, like: Tensor | None = None
    ) -> None:
        if not isinstance(rows, Tensor) or rows.ndim == 0 or len(rows) != expected:
            got = describe(rows) if isinstance(rows, Tensor) else type(rows).__name__
            raise InputError(f"{method}: expected {name} with a row for each {what}, {expected} of them, got {got}")
        if rows.dtype not in (torch.float32, torch.float64) or (like is not None and rows.dtype != like.dtype):
            dtype = (
                "float16, bfloat16, float32 or float64"
                if like is None
                else f"{str(like.dtype).removeprefix('torch.')}, as x is"
            )
            raise InputError(f"{method}: expected {name} of {dtype}, got {describe(rows)}")

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors under their names, in a fixed order."""
        for name in ("indptr", "indices", "positions"):
            yield name, getattr(self.edges, name)
        if self.edge_ids is not None:
            yield "edge_ids", self.edge_ids
        for side in ("sources", "destinations"):
            yield from ((f"{side}/{name}", tensor) for name, tensor in getattr(self, side).named_tensors())

    def map(self, of_tensor: Callable[[Tensor], Tensor]) -> SharedBlock:
        """Return the block with a function applied to its tensors."""
        edges = self.edges
        return dataclasses.replace(
            self,
            edges=LocalEdges(
                of_tensor(edges.indptr), of_tensor(edges.indices), of_tensor(edges.positions), edges.num_src
            ),
            sources=self.sources.map(of_tensor),
            destinations=self.destinations.map(of_tensor),
            edge_ids=None if self.edge_ids is None else of_tensor(self.edge_ids),
        )

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> SharedBlock:
        """Return the block on another device."""
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> SharedBlock:
        """Return the block in page-locked memory, from where copies to a GPU can overlap with work.

        Raises
        ------
        RuntimeError
            If there is no accelerator to pin memory for.
        """
        return self.map(Tensor.pin_memory)

    @property
    def edge_index(self) -> EdgeIndex:
        """What layers of PyG take for their ``edge_index`` in `hr.cooperative`; it has no numbers of nodes."""
        return EdgeIndex.of(self, self.num_edges, self.edges.indices.device, advice=_INSIDE)

    def to_pyg(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], EdgeIndex, tuple[int, int]]:
        """Return the arguments of a bipartite PyG layer, ``conv(*block.to_pyg(x))``, as `Block.to_pyg` does.

        Parameters
        ----------
        x: [num_src, ...]
            Rows of the nodes that this rank is master of.
        """
        return (x, x[: self.num_dst]), self.edge_index, (self.num_src, self.num_dst)

    def to_dgl(self) -> NoReturn:
        """Refuse: layers of DGL cannot run on edges that ranks share."""
        raise self._foreign("to_dgl")

    def adj_t(self, values: Tensor | None = None) -> NoReturn:
        """Refuse: there is no matrix of all edges."""
        del values
        raise self._foreign("adj_t")

    def _foreign(self, name: str) -> InputError:
        return InputError(f"SharedBlock.{name}: {_REMEDY}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed within: once more, for its own error
                object.__getattribute__(self, name)
            raise AttributeError(
                f"expected an attribute of a headrace SharedBlock, got {name!r}; {_REMEDY}", name=name, obj=self
            )

    def __repr__(self) -> str:
        return (
            f"SharedBlock({self.num_src} -> {self.num_dst} nodes of this rank, {self.num_edges} edges here, "
            f"{self.sources.num_mirrored} -> {self.destinations.num_mirrored} nodes)"
        )
