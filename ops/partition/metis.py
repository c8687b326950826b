"""Owners of nodes by METIS (Karypis and Kumar, SIAM J. Sci. Comput. 20, 1998), through pymetis."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from headrace.ops._arrays import Array, as_count
from headrace.ops.errors import InputError
from headrace.ops.graphs.undirected import Undirected, undirected
from headrace.ops.optional import require

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Recursive bisection cuts less up to here, and is slower than cutting in all parts at once; METIS's own advice.
_MOST_BISECTED = 8
_METIS_OK = 1
_METIS_OPTIONS = 40  # METIS_NOPTIONS


def metis_owners(
    indptr: Array,
    indices: Array,
    num_parts: int,
    *,
    labelled: NDArray[np.bool_] | None = None,
    balance_edges: bool = False,
    seed: int = 0,
) -> torch.Tensor:
    """Cut the undirected graph into parts of equal size with few edges between them.

    Parallel and opposite edges are one edge whose weight is their number, so that what METIS minimises is the number of
    directed edges cut. Self-loops are left out; so are nodes that have no other edges, which afterwards fill up the
    smallest parts.

    With `labelled` or `balance_edges` there are two or three constraints (Karypis and Kumar, SC 1998): every part gets
    an equal share of all nodes, of the labelled ones, and of the edges that end at its nodes. pymetis passes on only
    one weight per node (checked for version 2025.2.2), so this case calls METIS's own C function, which pymetis's
    library exports.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    num_parts : int
        At least 1. Some parts are empty if there are more than nodes.
    labelled : numpy.ndarray, optional
        bool[num_nodes].
    balance_edges : bool
        Whether every part gets an equal share of the in-edges.
    seed : int
        Its lower 31 bits are METIS's.

    Returns
    -------
    torch.Tensor
        int32[num_nodes].

    Raises
    ------
    ModuleNotFoundError
        If pymetis is not installed.
    InputError
        If the graph's arrays are malformed, or too large for the integers that METIS was compiled with.
    """
    stage = "metis_owners"
    pymetis = require("pymetis", extra="partition", stage="Partition.metis")
    parts = as_count(num_parts, "num_parts", stage=stage)
    graph = undirected(indptr, indices)
    connected = np.diff(graph.starts) > 0
    owners = np.full(connected.size, -1, np.int32)
    if parts == 1:
        owners[:] = 0
    elif connected.sum() > parts:
        core = _without_isolated(graph, connected)
        weights = [np.diff(np.asarray(indptr))] if balance_edges else []
        weights += [] if labelled is None else [labelled]
        # One that is the same for all nodes, or for none, is met by an equal share of the nodes.
        weights = [one for one in (every[connected] for every in weights) if one.min() < one.max()]
        if weights:
            owners[connected] = _several_constraints(core, parts, weights, seed)
        else:
            owners[connected] = _one_constraint(pymetis, core, parts, seed)
    _fill_up(owners, parts, labelled)
    return torch.from_numpy(owners)


def _without_isolated(graph: Undirected, connected: NDArray[np.bool_]) -> Undirected:
    if connected.all():
        return graph
    renumbered = np.cumsum(connected) - 1
    starts = graph.starts[np.append(np.flatnonzero(connected), connected.size)]
    return Undirected(starts, renumbered[graph.neighbors], graph.weights)


def _arrays(graph: Undirected) -> tuple[Any, Any, Any]:
    """Return starts, neighbours and weights in METIS's integers; no weights where all are equal."""
    width: int = _internal()._idx_type_width()  # noqa: SLF001 - nothing public says it
    if graph.neighbors.size >= 1 << (width - 1):
        message = (
            f"Partition.metis: METIS was compiled with {width}-bit integers, too short for a graph of "
            f"{graph.neighbors.size:,} undirected entries; use Partition.stream"
        )
        raise InputError(message)
    integer = np.dtype(f"int{width}")
    weights = None if np.ptp(graph.weights) == 0 else graph.weights.astype(integer)
    return graph.starts.astype(integer, copy=False), graph.neighbors.astype(integer), weights


def _internal() -> Any:
    return require("pymetis._internal", extra="partition", stage="Partition.metis")


def _one_constraint(pymetis: Any, graph: Undirected, num_parts: int, seed: int) -> NDArray[np.int32]:
    starts, neighbors, weights = _arrays(graph)
    cut = pymetis.part_graph(
        num_parts,
        pymetis.CSRAdjacency(starts, neighbors),
        eweights=weights,
        recursive=num_parts <= _MOST_BISECTED,
        options=pymetis.Options(seed=seed & 0x7FFF_FFFF),
    )
    return np.asarray(cut.vertex_part, np.int32)


def _several_constraints(
    graph: Undirected, num_parts: int, of_nodes: list[NDArray[Any]], seed: int
) -> NDArray[np.int32]:
    """METIS_PartGraphRecursive or METIS_PartGraphKway with several weights per node: 1, and those given."""
    starts, neighbors, weights = _arrays(graph)
    internal = _internal()
    metis = ctypes.CDLL(internal.__file__)
    name = "METIS_PartGraphRecursive" if num_parts <= _MOST_BISECTED else "METIS_PartGraphKway"
    if not hasattr(metis, name):
        message = (
            f"Partition.metis: this build of pymetis does not export {name}, which balance= and "
            "balance_edges= need; install pymetis 2025.2.2 from a wheel, or leave them out"
        )
        raise ModuleNotFoundError(message, name="pymetis")
    integer = starts.dtype
    size = graph.starts.size - 1
    every = np.stack([np.ones(size, integer), *(one.astype(integer) for one in of_nodes)], axis=1)
    options = np.empty(_METIS_OPTIONS, integer)
    metis.METIS_SetDefaultOptions(_address(options))
    options[internal.options_indices.SEED] = seed & 0x7FFF_FFFF
    counts = [np.array([value], integer) for value in (size, every.shape[1], num_parts, 0)]
    num_nodes, num_constraints, parts, cut = map(_address, counts)
    owners = np.empty(size, integer)
    status = getattr(metis, name)(
        num_nodes,
        num_constraints,
        _address(starts),
        _address(neighbors),
        _address(every),
        None,  # sizes of nodes, for another objective
        None if weights is None else _address(weights),
        parts,
        None,  # shares of the parts: equal
        None,  # tolerances: METIS's own
        _address(options),
        cut,
        _address(owners),
    )
    if status != _METIS_OK:
        message = f"Partition.metis: {name} failed with status {status}"
        raise MemoryError(message) if status == -3 else InputError(message)  # METIS_ERROR_MEMORY
    return owners.astype(np.int32)


def _address(array: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _fill_up(owners: NDArray[np.int32], num_parts: int, labelled: NDArray[np.bool_] | None) -> None:
    """Give nodes without an owner, labelled ones first, to the parts that have the fewest."""
    for group in [labelled] * (labelled is not None) + [np.ones(owners.size, np.bool_)]:
        assert group is not None
        left = np.flatnonzero(group & (owners < 0))
        sizes = np.bincount(owners[group & (owners >= 0)], minlength=num_parts)
        owners[left] = np.repeat(np.arange(num_parts, dtype=np.int32), _level(sizes, left.size))


def _level(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return how many of `count` things each of several piles gets when each goes to the lowest pile, the first one."""
    order = np.argsort(sizes, kind="stable")
    ascending = sizes[order]
    # The piles below the final level: raising the first k to the height of the next takes that many things.
    needed = np.arange(sizes.size) * ascending - np.concatenate([[0], np.cumsum(ascending)[:-1]])
    raised = int(np.searchsorted(needed, count, side="right"))
    height, rest = divmod(count + int(ascending[:raised].sum()), raised)
    added = np.zeros_like(sizes)
    lowest = np.sort(order[:raised])
    added[lowest] = height - sizes[lowest]
    added[lowest[:rest]] += 1
    return added
