"""Random walks with restart, and the neighbours that PinSAGE takes from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import (
    Array,
    as_count,
    as_key,
    as_num_threads,
    as_numpy,
    graph_arrays,
    weight_array,
)
from headrace.ops.borrowed import check_memory
from headrace.ops.errors import InputError
from headrace.ops.sampling.sample import check_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_STEPS = 1 << 31

#: As in ops/native/weighted/running_sums.hpp.
_EDGES_PER_SUM = 4


@dataclass(frozen=True)
class WeightSums:
    """Edge weights with sums, by which a step of a walk finds its edge by bisection. `weight_sums` returns them.

    Attributes
    ----------
    weights : torch.Tensor or numpy.ndarray
        float32[num_edges] or float64[num_edges], in CSC order, by reference: do not change them afterwards.
    sums : torch.Tensor
        float64[num_edges // 4 + 1]: entry i is the sum of the weights before edge 4 i in that edge's row, or 0 if the
        row begins there or there is no such edge.
    """

    weights: Array
    sums: torch.Tensor

    def before(self, starts: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Return the sum of the weights before each of some edges in its row, added up in CSC order: float64[n].

        Parameters
        ----------
        starts, positions : torch.Tensor
            int64[n]: where the edge's row begins, and where the edge is.
        """
        weights = torch.as_tensor(self.weights, device="cpu")
        entries = positions // _EDGES_PER_SUM
        summed = entries * _EDGES_PER_SUM
        sums = self.sums[entries].where(summed > starts, 0.0)
        first = torch.maximum(summed, starts)
        for position in (first + edge for edge in range(_EDGES_PER_SUM - 1)):
            more = weights[position.clamp(max=len(weights) - 1)].double()
            sums += more.where(position < positions, 0.0)
        return sums

    def of_rows(self, indptr: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
        """Return the sum of the weights of each node's row, added up in CSC order, float64[n]; 0 without in-edges.

        Parameters
        ----------
        indptr, nodes : torch.Tensor
            int64[num_nodes + 1] of the graph, and int64[n].
        """
        starts, last = indptr[nodes], indptr[nodes + 1] - 1
        sums = torch.zeros(len(nodes), dtype=torch.float64, device="cpu")
        filled = (last >= starts).nonzero().reshape(-1)
        last = last[filled]
        weights = torch.as_tensor(self.weights, device="cpu")
        sums[filled] = self.before(starts[filled], last) + weights[last].double()
        return sums


@dataclass(frozen=True)
class Visits:
    """The nodes that the walks of each destination visited most, most visits first.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1].
    neighbors : torch.Tensor
        [num_neighbors] of the graph's index dtype, global ids.
    counts : torch.Tensor
        int64[num_neighbors], the numbers of visits.
    """

    indptr: torch.Tensor
    neighbors: torch.Tensor
    counts: torch.Tensor

    def importance(self) -> torch.Tensor:
        """Return the counts scaled so that they average to 1 for each destination, float32[num_neighbors].

        The plain mean of messages times these counts is the mean weighted by visits.
        """
        totals = torch.cat([torch.zeros(1, dtype=torch.int64, device="cpu"), self.counts.cumsum(0)])[self.indptr].diff()
        degrees = self.indptr.diff()
        share = torch.repeat_interleave(degrees, degrees).double() / torch.repeat_interleave(totals, degrees).double()
        return (self.counts.double() * share).float()


def weight_sums(
    indptr: Array, weights: Array, *, trust_weights: bool = False, num_threads: int | None = None
) -> WeightSums:
    """Check edge weights and sum them along each row; do it once per graph.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1] of the graph.
    weights : torch.Tensor or numpy.ndarray
        float32[num_edges] or float64[num_edges] in CSC order.
    trust_weights : bool
        Do not check the weights: `check_weights` has been called on them.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Raises
    ------
    InputError
        For weights that are negative, infinite or not a number, rows whose sum overflows, a wrong length or dtype.
    """
    stage = "weight_sums"
    if trust_weights is not True:  # nothing else is a promise
        check_weights(indptr, weights, num_threads=num_threads)
    starts = as_numpy(indptr, "indptr", stage=stage)
    if starts.size == 0:
        message = f"{stage}: expected indptr to have num_nodes + 1 entries, got none"
        raise InputError(message)
    values = weight_array(weights, int(starts[-1]), stage)
    sums = _native.sum_rows(starts, values, as_num_threads(num_threads, stage=stage))
    return WeightSums(weights, torch.from_numpy(sums))  # not a view: torch may move the memory of weights


def random_walk(
    indptr: Array,
    indices: Array,
    starts: Array,
    length: int,
    *,
    restart: float = 0.0,
    key: int,
    ids: Array | None = None,
    weights: WeightSums | None = None,
    num_threads: int = 1,
) -> torch.Tensor:
    """Walk a fixed number of steps from every start.

    A step goes from a node to one of its *in*-neighbours, against the direction of messages: a walk visits nodes whose
    messages can reach its start. In-edges are exactly equally likely (the integers have no modulo bias), or likely in
    proportion to their weights.

    With probability `restart` (a multiple of 2**-32, rounded down) a step leads back to the start instead, which counts
    as a visit of the start. A node without in-edges (of positive weight) is a dead end: a step there that does not
    restart ends the walk.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    starts : torch.Tensor or numpy.ndarray
        int64[num_starts]; several walks may begin at one node.
    length : int
        Steps.
    restart : float
        In [0, 1).
    key : int
        Stream key of the walks.
    ids : torch.Tensor or numpy.ndarray, optional
        int64[num_starts], at least 0: walk i is a function of the key and ``ids[i]``, so walks of one id and start are
        equal. Default: ``i``. A longer walk begins with the shorter one.
    weights : WeightSums, optional
        Walk by edge weight. Default: uniformly.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        int64[num_starts, length + 1], the start and a node per step; -1 after a dead end.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If starts are not nodes, or ids are negative or have another length.
        For a negative length, or a restart outside [0, 1).
    """
    stage = "random_walk"
    pointers, sources = graph_arrays(indptr, indices, stage)
    begin = as_numpy(starts, "starts", stage=stage)
    streams = None
    if ids is not None:
        streams = as_numpy(ids, "ids", stage=stage)
        if streams.size != begin.size or (streams.size and int(streams.min()) < 0):
            message = (
                f"{stage}: expected ids to be one number of at least 0 per start ({begin.size}), got {streams.size} ids"
            )
            raise InputError(message)
    walks = _native.random_walk(
        pointers,
        sources,
        *_weights_and_sums(weights, sources.size, stage),
        begin,
        streams,
        _steps(length, "length", stage),
        _restart_words(restart, stage),
        as_key(key, stage=stage),
        as_num_threads(num_threads, stage=stage),
    )
    return torch.from_numpy(walks).reshape(begin.size, int(length) + 1)


def pinsage_neighbors(
    indptr: Array,
    indices: Array,
    frontier: Array,
    num_neighbors: int,
    *,
    num_walks: int,
    walk_length: int,
    restart: float = 0.5,
    key: int,
    weights: WeightSums | None = None,
    num_threads: int = 1,
) -> Visits:
    """Find the nodes that random walks from each destination visit most often (PinSAGE, arXiv 1806.01973).

    Walks are those of `random_walk`. The destination itself is not counted. Nodes visited equally often are in the
    order of their first visit, so that ties favour no id.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations; one that occurs twice gets the same neighbours twice.
    num_neighbors : int
        Nodes to keep per destination; fewer if fewer were visited.
    num_walks, walk_length : int
        The number of walks per destination, and of steps of each.
    restart : float
        In [0, 1).
    key : int
        Stream key; the walks of a destination use the stream of its global id, one walk after the other.
    weights : WeightSums, optional
        Walk by edge weight. Default: uniformly.
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If the frontier has ids that are not nodes.
        For negative numbers, or a restart outside [0, 1).
    """
    stage = "pinsage_neighbors"
    pointers, sources = graph_arrays(indptr, indices, stage)
    starts, neighbors, counts = _native.pinsage_neighbors(
        pointers,
        sources,
        *_weights_and_sums(weights, sources.size, stage),
        as_numpy(frontier, "frontier", stage=stage),
        as_count(num_neighbors, "num_neighbors", stage=stage),
        _steps(num_walks, "num_walks", stage),
        _steps(walk_length, "walk_length", stage),
        _restart_words(restart, stage),
        as_key(key, stage=stage),
        as_num_threads(num_threads, stage=stage),
    )
    return Visits(torch.from_numpy(starts), torch.from_numpy(neighbors), torch.from_numpy(counts))


def _weights_and_sums(
    weights: WeightSums | None, num_edges: int, stage: str
) -> tuple[_native.WeightArray | None, NDArray[np.float64] | None]:
    if weights is None:
        return None, None
    if not isinstance(weights, WeightSums):
        message = f"{stage}: expected weights to come from weight_sums(indptr, weights), got {type(weights).__name__}"
        raise InputError(message)
    if isinstance(weights.weights, torch.Tensor):
        check_memory(weights.weights, "weights", stage)
    values = as_numpy(weights.weights, "weights", stage=stage, dtypes=("float32", "float64"))
    sums = as_numpy(weights.sums, "weights.sums", stage=stage, dtypes=("float64",))
    if values.size != num_edges:
        message = (
            f"{stage}: expected weights to have one entry per edge ({num_edges}), got {values.size}; pass those of "
            "this graph"
        )
        raise InputError(message)
    return values, sums


def _steps(number: int, name: str, stage: str) -> int:
    if as_count(number, name, stage=stage) >= _MAX_STEPS:
        message = f"{stage}: expected {name} to be below 2**31, got {number}"
        raise InputError(message)
    return int(number)


def _restart_words(restart: float, stage: str) -> int:
    """Return how many of the 2**32 values of a word mean "back to the start"."""
    if isinstance(restart, bool) or not isinstance(restart, (int, float, np.floating)) or not 0 <= restart < 1:
        message = f"{stage}: expected restart to be a probability in [0, 1), got {restart!r}"
        raise InputError(message)
    return int(float(restart) * 2.0**32)
