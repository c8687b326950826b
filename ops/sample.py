"""Neighbour sampling: the hop rules, one hop, and the fused sampler of several hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch

from headrace.ops import _native
from headrace.ops._arrays import ID_DTYPES, Array, as_key, as_num_threads, as_numpy, graph_arrays, weight_array
from headrace.ops.errors import GraphError, InputError, ItemsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_MAX_FANOUT = 1 << 62


def _check_fanout(rule: str, fanout: int) -> None:
    if isinstance(fanout, bool) or not isinstance(fanout, int) or not -1 <= fanout <= _MAX_FANOUT:
        message = f"{rule}: fanout must be an int of at least 0, or -1 for all in-edges, got {fanout!r}"
        raise InputError(message)


@dataclass(frozen=True)
class NeighborRule:
    """Pick in-edges destination by destination, uniformly or by edge weight.

    With weights, picks without replacement follow successive draws by weight (an exponential race), picks with
    replacement are independent draws by weight. Edges of weight 0 are never picked.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    replace : bool
        Draw `fanout` times with replacement instead. Ignored when `fanout` is -1.
    """

    fanout: int
    replace: bool = False

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_fanout("NeighborRule", self.fanout)


@dataclass(frozen=True)
class LaborRule:
    """Layer-neighbour sampling, LABOR-0 (arXiv 2210.13339): destinations of a hop share one variate per source vertex.

    The number of edges per destination and the variance of a mean over them are those of `NeighborRule`, but
    destinations agree on which sources to pick, so a batch touches fewer vertices.

    With weights ``A_ts`` edge t -> s is wanted with probability ``min(1, fanout * A_ts / sum of the row)``, and picked
    edges carry importance weights: a plain mean of messages times these weights is the Hajek estimate of the weighted
    mean over all in-edges. Edges of weight 0 are never picked; where no more than `fanout` others are left, all of
    those are.

    Attributes
    ----------
    fanout : int
        In-edges per destination; all of them where there are no more, or when it is -1.
    exact : bool
        True: exactly `fanout` edges, those with the smallest variates. False: each edge is kept with probability
        fanout / in-degree (Poisson sampling), so that `fanout` is the expected number.
    """

    fanout: int
    exact: bool = True

    def __post_init__(self) -> None:
        """Check the fan-out."""
        _check_fanout("LaborRule", self.fanout)


Rule: TypeAlias = NeighborRule | LaborRule


@dataclass(frozen=True)
class Hop:
    """The edges one hop picked, by destination.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1].
    neighbors : torch.Tensor
        [num_edges] of the graph's index dtype, global ids of the sources.
    positions : torch.Tensor
        int64[num_edges], where the edges are in the graph's CSC arrays.
    weights : torch.Tensor or None
        float32[num_edges], importance weights that average to 1 per destination; None where all would be 1 (no edge
        weights) or a plain mean is what the rule is for (`NeighborRule`).
    """

    indptr: torch.Tensor
    neighbors: torch.Tensor
    positions: torch.Tensor
    weights: torch.Tensor | None = None


@dataclass(frozen=True)
class SampledHop:
    """One bipartite block in local ids: sources 0, ..., num_src - 1, of which the first num_dst are the destinations.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_dst + 1].
    indices : torch.Tensor
        [num_edges] of the graph's index dtype, local source ids.
    edge_ids : torch.Tensor or None
        int64[num_edges], input edge ids; None when they were not asked for.
    num_dst, num_src : int
        Numbers of destinations and of sources.
    weights : torch.Tensor or None
        float32[num_edges], see `Hop`; None for a shared block of rules of which some give no weights.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    edge_ids: torch.Tensor | None
    num_dst: int
    num_src: int
    weights: torch.Tensor | None = None


@dataclass(frozen=True)
class Sampled:
    """What the fused sampler returns.

    Attributes
    ----------
    n_id : torch.Tensor
        int64[num_src], global ids behind the local ones: the seeds, then vertices by discovery.
    hops : list of SampledHop
        The hop next to the seeds first; one merged hop when sampled with ``expand="new"``.
    num_sampled_nodes : list of int
        Vertices discovered by each hop, the seeds first.
    num_sampled_edges : list of int
        Edges picked by each hop.
    """

    n_id: torch.Tensor
    hops: list[SampledHop]
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]


def sample_hop(
    indptr: Array,
    indices: Array,
    frontier: Array,
    rule: Rule,
    key: int,
    *,
    weights: Array | None = None,
    num_threads: int = 1,
) -> Hop:
    """Pick in-edges of every frontier vertex.

    Uniform picks use the random stream of the *destination's* global id: all edges in CSC order where the in-degree
    does not exceed the fan-out, else Robert Floyd's algorithm in the order of its draws. LABOR picks use the variates
    of the *sources*. They, and picks by weight without replacement, come in ascending CSC order.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    frontier : torch.Tensor or numpy.ndarray
        int64[num_dst], destinations; one that is listed twice gets the same picks twice.
    rule : NeighborRule or LaborRule
        How to pick.
    key : int
        Stream key of the hop.
    weights : torch.Tensor or numpy.ndarray, optional
        float32[num_graph_edges] or float64[num_graph_edges] in CSC order. Vet them once with `check_weights`: values
        are not looked at again here.
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    GraphError
        If the graph's arrays are malformed.
    ItemsError
        If the frontier holds ids that are no nodes.
    """
    stage = "sample_hop"
    starts, sources = graph_arrays(indptr, indices, stage)
    indptr_out, neighbors, positions, importance = _native.sample_hop(
        starts,
        sources,
        as_numpy(frontier, "frontier", stage=stage, error=ItemsError),
        _kind(rule, stage),
        rule.fanout,
        as_key(key, stage=stage),
        None if weights is None else weight_array(weights, sources.size, stage),
        as_num_threads(num_threads, stage=stage),
    )
    return Hop(
        torch.from_numpy(indptr_out),
        torch.from_numpy(neighbors),
        torch.from_numpy(positions),
        _optional(importance),
    )


def check_weights(indptr: Array, weights: Array, *, num_threads: int | None = None) -> None:
    """Check edge weights before they decide anything.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1] of the graph.
    weights : torch.Tensor or numpy.ndarray
        float32[num_edges] or float64[num_edges] in CSC order.
    num_threads : int, optional
        Default: the cores this process may use.

    Raises
    ------
    GraphError
        For weights that are negative, infinite or not a number, rows whose sum times their length overflows, another
        length or dtype.
    """
    stage = "check_weights"
    starts = as_numpy(indptr, "indptr", stage=stage, error=GraphError)
    if starts.size == 0:
        message = f"{stage}: indptr must have num_nodes + 1 entries, got none"
        raise GraphError(message)
    values = weight_array(weights, int(starts[-1]), stage)
    _native.check_weights(starts, values, as_num_threads(num_threads, stage=stage))


class BlockSampler:
    """Sample several hops in one call, without edge lists or sorting in between (FastSample, arXiv 2311.17847).

    The result is bit for bit what `sample_hop` followed by `compact`, hop by hop, would give. The sampler keeps scratch
    memory of 8 bytes per vertex between calls, once per call that runs at the same time; calling it from several
    threads at once is safe.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1]. The graph's arrays are borrowed, not copied: do not change them.
    indices : torch.Tensor or numpy.ndarray
        int32[num_edges] or int64[num_edges].
    edge_ids : torch.Tensor or numpy.ndarray, optional
        int32[num_edges] or int64[num_edges], reported for the picked edges; without it their CSC positions are.
    weights : torch.Tensor or numpy.ndarray, optional
        float32[num_edges] or float64[num_edges] in CSC order: pick by weight. Checked here, once.

    Raises
    ------
    GraphError
        If the arrays have other dtypes, lengths or devices, or if weights are negative, infinite or not a number.
    """

    def __init__(
        self, indptr: Array, indices: Array, edge_ids: Array | None = None, weights: Array | None = None
    ) -> None:
        stage = "BlockSampler"
        starts, sources = graph_arrays(indptr, indices, stage)
        ids = None
        if edge_ids is not None:
            ids = as_numpy(edge_ids, "edge_ids", stage=stage, dtypes=ID_DTYPES, error=GraphError)
            if ids.size != sources.size:
                message = f"{stage}: edge_ids must have one entry per edge ({sources.size}), got {ids.size}"
                raise GraphError(message)
        values = None
        if weights is not None:
            check_weights(starts, weights)
            values = weight_array(weights, sources.size, stage)
        self._native = _native.FusedSampler(starts, sources, ids, values)

    def sample(
        self,
        seeds: Array,
        rules: Sequence[Rule],
        keys: Sequence[int],
        *,
        expand: Literal["all", "new"] = "all",
        edge_ids: bool = True,
        num_threads: int = 1,
    ) -> Sampled:
        """Sample the neighbourhood of unique seeds.

        Parameters
        ----------
        seeds : torch.Tensor or numpy.ndarray
            int64[num_seeds], unique.
        rules : sequence of NeighborRule or LaborRule
            One per hop, the hop next to the seeds first.
        keys : sequence of int
            One stream key per hop.
        expand : {"all", "new"}
            "all": each hop samples for every vertex seen so far; one block per hop. "new": each hop samples for the
            vertices that the hop before discovered, and all hops share one block.
        edge_ids : bool
            Whether to return edge ids.
        num_threads : int
            The result does not depend on it.

        Raises
        ------
        ItemsError
            If seeds are not unique or no nodes.
        InputError
            If there is not one key per rule, or for an unknown `expand`.
        GraphError
            If the sampler meets an inconsistency of the graph.
        """
        stage = "BlockSampler.sample"
        if not 0 < len(rules) == len(keys):
            message = f"{stage}: expected at least one rule and one key per rule, got {len(rules)} and {len(keys)}"
            raise InputError(message)
        if expand not in ("all", "new"):
            message = f'{stage}: expand must be "all" or "new", got {expand!r}'
            raise InputError(message)
        n_id, blocks, num_nodes, num_edges = self._native.sample(
            as_numpy(seeds, "seeds", stage=stage, error=ItemsError),
            [_kind(rule, stage) for rule in rules],
            [rule.fanout for rule in rules],
            [as_key(key, stage=stage) for key in keys],
            expand == "new",
            edge_ids,
            as_num_threads(num_threads, stage=stage),
        )
        hops = [
            SampledHop(
                torch.from_numpy(starts),
                torch.from_numpy(indices),
                _optional(ids),
                starts.size - 1,
                num_src,
                _optional(importance),
            )
            for starts, indices, ids, importance, num_src in blocks
        ]
        return Sampled(torch.from_numpy(n_id), hops, num_nodes, num_edges)


def _kind(rule: Rule, stage: str) -> _native.RuleKind:
    match rule:
        case NeighborRule():
            return _native.RuleKind.NEIGHBOR_REPLACEMENT if rule.replace else _native.RuleKind.NEIGHBOR
        case LaborRule():
            return _native.RuleKind.LABOR_EXACT if rule.exact else _native.RuleKind.LABOR_POISSON
        case _:
            message = f"{stage}: a rule must be a NeighborRule or a LaborRule, got {rule!r}"
            raise InputError(message)


def _optional(array: NDArray[Any] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)
