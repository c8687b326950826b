"""What loaders keep with a graph: arrays placed for GPUs, fused samplers, and tables computed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from headrace.ops import BlockSampler, TypedRows
from headrace.ops.borrowed import Borrowed
from headrace.ops.forks import ProcessLock
from headrace.ops.gpu import has_room, placed
from headrace.ops.graphs.ranked_rows import RankedRows
from headrace.ops.graphs.ranks import Ranks
from headrace.pipeline.data.graph_types import rows_of

if TYPE_CHECKING:
    from headrace.pipeline.data.edge_weights import EdgeWeights
    from headrace.pipeline.data.graph_view import GraphView
    from headrace.pipeline.data.seen import Seen

Table = TypeVar("Table")
SameNodes = TypeVar("SameNodes", bound="GraphView")
Arrays = TypeVar("Arrays", bound="tuple[Any, ...]")

#: The table of the items, by name, of the data set that a graph was opened with.
ITEMS_BESIDE = "items beside the graph"

#: The table of `Dataset.numbering` of the data set that a graph was opened with.
NUMBERING = "numbering of the nodes"

#: Threads that sample at once place the arrays of a graph once: a second copy might have no room.
_PLACING = ProcessLock()


@dataclass(eq=False)
class Kept:
    """What is kept with a graph as long as it lives, and is neither compared nor sent with it.

    Parameters
    ----------
    tables
        The tables that stages computed for this graph, by name.
    seen
        The arrays that tables were made of, by a name: see `headrace.pipeline.data.seen`.
    weights
        The edge attributes used as sampling weights so far, by name.
    samplers
        Fused samplers, by the edge attribute that they sample by and their GPU.
    """

    tables: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    weights: dict[str, EdgeWeights] = field(default_factory=dict)
    samplers: dict[tuple[str | None, torch.device | None], BlockSampler] = field(default_factory=dict)

    def forget_samplers(self) -> None:
        """Release fused samplers and checked weights, which keep arrays that the graph no longer has."""
        self.samplers.clear()
        self.weights.clear()


def kept(graph: GraphView) -> Kept:
    """Return what is kept with a graph."""
    return graph._kept  # noqa: SLF001 - of this module, which the graph holds


def numbering_of(graph: GraphView) -> str | None:
    """Return the `Dataset.numbering` of the data set that a graph is of, as far as that is known."""
    numbering: str | None = kept(graph).tables.get(NUMBERING)
    return numbering


def numbered_as(graph: GraphView, other: SameNodes) -> SameNodes:
    """Return another graph of the nodes of a graph: it has the `NUMBERING` of that, too."""
    kept(other).tables[NUMBERING] = numbering_of(graph)
    return other


def table(graph: GraphView, name: str, make: Callable[[], Table]) -> Table:
    """Return the table of a name; the first call computes it."""
    tables = kept(graph).tables
    known: Table | None = tables.get(name)
    return tables.setdefault(name, make()) if known is None else known  # another thread may have been faster


def rows_of_nodes(graph: GraphView) -> Tensor | RankedRows:
    """Return where the in-edges of each node are, as kernels take it: an indptr of all, or rows of a part's nodes."""
    own = graph._own_nodes  # noqa: SLF001 - of this module, which the graph holds
    if own is None:
        return graph.indptr
    return table(graph, "rows of own nodes", lambda: RankedRows.of(own, graph.indptr, graph.num_nodes))


def in_edges(graph: GraphView, node: int) -> slice:
    """Return the positions of the in-edges of a node; none of one of another part."""
    rows = rows_of_nodes(graph)
    place = node if isinstance(rows, Tensor) else int(rows.ranks.find(torch.tensor([node], device="cpu")))
    return slice(0, 0) if place < 0 else slice(*graph.indptr[place : place + 2].tolist())


def destinations_of(graph: GraphView, positions: Tensor) -> Tensor:
    """Return the nodes to which edges lead, int64[n], by their positions, int64[n]."""
    rows = torch.searchsorted(graph.indptr, positions, right=True) - 1
    own = graph._own_nodes  # noqa: SLF001 - of this wing
    return rows if own is None else own[rows]


def typed_rows_of(graph: GraphView) -> TypedRows:
    """Return the rows of nodes and edge types, computed when a graph with types is first sampled: 8 bytes for each.

    A node has a row for each edge type that may end in it.
    """
    return table(graph, "typed rows", lambda: rows_of(graph))


def has_sound_edge_ids(graph: GraphView) -> bool:
    """Whether all edge ids are in range; checked once, because a GPU reads rows of edges without a check."""
    return table(graph, "edge ids are sound", lambda: _are_in_range(graph.edge_permutation, graph.num_edges))


def _are_in_range(edge_ids: Tensor | None, num_edges: int) -> bool:
    if edge_ids is None or len(edge_ids) == 0:
        return True
    low, high = edge_ids.aminmax()
    return int(low) >= 0 and int(high) < num_edges


class HopArrays(NamedTuple):
    """What hops read of a graph, in memory of the CPU, or in that of a GPU or pinned in that of the CPU.

    Parameters
    ----------
    indptr: int64[num_nodes + 1] or RankedRows
        With types that of `rows`; of a part the rows of its own nodes.
    indices: int32[num_edges] or int64[num_edges]
    edge_ids: int32[num_edges] or int64[num_edges], optional
    times: int64[num_edges], optional
        By which rows are sorted.
    rows
        Those of a graph with types.
    """

    indptr: Tensor | RankedRows
    indices: Tensor
    edge_ids: Tensor | None
    times: Tensor | None
    rows: TypedRows | None

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        """All arrays: bounds of rows, which nodes these are of, sources, ids and times of edges."""
        bounds = (
            (self.indptr.starts, self.indptr.blocks) if isinstance(self.indptr, RankedRows) else (self.indptr, None)
        )
        return (*bounds, self.indices, self.edge_ids, self.times)

    @property
    def num_bytes(self) -> int:
        """Bytes that they take."""
        return sum(array.nbytes for array in self.tensors if array is not None)

    def on(self, device: torch.device) -> HopArrays:
        """Return them where a GPU reads them: there if they fit, else pinned in CPU memory."""
        starts, blocks, indices, edge_ids, times = placed(self.tensors, device)
        assert starts is not None
        assert indices is not None
        indptr: Tensor | RankedRows = starts
        if isinstance(self.indptr, RankedRows) and blocks is not None:
            indptr = RankedRows(starts, Ranks(blocks, self.indptr.num_ids))
        rows = None if self.rows is None else replace(self.rows, row_ptr=indptr)
        return HopArrays(indptr, indices, edge_ids, times, rows)


def arrays_on(graph: GraphView, device: torch.device | None) -> HopArrays:
    """Return the arrays that hops read, for a GPU: in its memory if they fit, otherwise pinned in CPU memory.

    Without a device they are those of the graph.
    """
    if device is not None:
        return _placed_once(graph, f"arrays on {device}", lambda: arrays_on(graph, None).on(device))
    rows = typed_rows_of(graph) if graph.is_typed else None
    indptr = rows_of_nodes(graph) if rows is None else rows.row_ptr
    return HopArrays(indptr, graph.indices, graph.edge_permutation, graph.edge_times, rows)


def csc_on(graph: GraphView, device: torch.device | None, *, edges: bool) -> tuple[Tensor | RankedRows, Tensor]:
    """Return indptr of nodes, as `rows_of_nodes`, and indices for a GPU, or without a device in CPU memory.

    Without `edges` a GPU gets no indices, as nobody reads them: graphs are large.
    """
    rows = rows_of_nodes(graph)
    if device is None:
        return rows, graph.indices
    if edges:
        arrays = arrays_on(graph, device)
        if arrays.rows is None:
            return arrays.indptr, arrays.indices
        indices = arrays.indices
    else:
        indices = torch.empty(0, dtype=torch.int64, device=device)
    starts = placed_once(graph, "indptr of nodes", graph.indptr, device)
    return rows.replaced(starts) if isinstance(rows, RankedRows) else starts, indices


def weights_on(graph: GraphView, name: str, device: torch.device | None) -> Tensor:
    """Return `edge_weights` for a GPU, or without a device in CPU memory."""
    weights = graph.edge_weights(name)
    if device is None:
        return weights
    return placed_once(graph, f"weights {name}", weights, device)


def placed_once(graph: GraphView, name: str, array: Tensor, device: torch.device) -> Tensor:
    """Return an array that belongs to a graph where a GPU reads it: there if it fits, else pinned in CPU memory."""
    (there,) = _placed_once(graph, f"{name} on {device}", lambda: tuple(placed((array,), device)))
    assert there is not None
    return there


def _placed_once(graph: GraphView, name: str, place: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a name, placed when they are first asked for, and again where torch has moved them."""
    tables = kept(graph).tables
    with _PLACING.held():
        known: Arrays | None = tables.get(name)
        addresses: Borrowed | None = tables.get(f"addresses of {name}")
        if known is None or (addresses is not None and addresses.moved()):
            known = tables[name] = place()
            tables[f"addresses of {name}"] = Borrowed(known.tensors if isinstance(known, HopArrays) else known)
    return known


def _is_on_gpu(graph: GraphView, index: int | None) -> bool:
    """Whether the arrays of a graph were copied to a GPU, named by its number, or for None to any."""
    with _PLACING.held():
        values = list(kept(graph).tables.values())
    known = [arrays.indices for arrays in values if isinstance(arrays, HopArrays)]
    return any(there.is_cuda and index in (None, there.device.index) for there in known)


def fits_on_gpu(graph: GraphView, index: int | None, memory: int) -> bool:
    """Whether `arrays_on` has copied the arrays to a GPU, or will with this number of free bytes.

    The GPU is given by its number; None means any GPU.
    """
    # Where they are there, what is free is what they have left.
    return _is_on_gpu(graph, index) or has_room(arrays_on(graph, None).num_bytes, memory)


def bytes_to_place(graph: GraphView, index: int | None, memory: int) -> int:
    """Return the bytes of GPU memory that `arrays_on` will allocate; 0 if the arrays are there, or do not fit."""
    fits = not _is_on_gpu(graph, index) and fits_on_gpu(graph, index, memory)
    return arrays_on(graph, None).num_bytes if fits else 0


def block_sampler(graph: GraphView, weight: str | None = None, device: torch.device | None = None) -> BlockSampler:
    """Return the graph's fused sampler, created at the first use; loaders share it and its scratch memory.

    Parameters
    ----------
    graph
        The graph that it samples.
    weight
        Edge attribute to sample by; None for uniform sampling.
    device
        The GPU that samples; None for the CPU.

    Raises
    ------
    InputError
        If there is no such edge attribute, or it holds values that are negative, infinite or not numbers.
    """
    samplers = kept(graph).samplers
    known = samplers.get((weight, device))
    if known is None or device is not None:  # a GPU's are pinned anew where they were moved
        weights = None if weight is None else weights_on(graph, weight, device)
        indptr, indices, edge_ids, times, rows = arrays_on(graph, device)
    if known is None:
        made = BlockSampler(
            indptr, indices, edge_ids, weights, times=times, trust_weights=True, device=device, rows=rows
        )
        known = samplers.setdefault((weight, device), made)  # another thread may have been faster
    return known


def scratch_bytes(graph: GraphView) -> int:
    """Return the number of bytes that the graph's fused samplers keep between minibatches."""
    return sum(sampler.scratch_bytes for sampler in kept(graph).samplers.values())
