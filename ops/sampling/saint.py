"""Subgraphs drawn from the whole graph, and the norms that make them unbiased: GraphSAINT (arXiv 1907.04931).

A law says how one draw is made; a subgraph is what some independent draws bring, with all edges in between. Then the
probability that a node, or both ends of an edge, are in a subgraph has a closed form, and so have the norms:

- ``1 / (num_nodes * P(v))`` makes the sum over the subgraph of any quantity of its nodes an unbiased estimate of the
  mean over all nodes of the graph, where those that are never drawn count as 0,
- ``P(v) / P(u and v)`` of edge u -> v makes the sum over the in-neighbours u that are there an unbiased estimate, given
  v, of the sum over all in-neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from headrace.ops import _native
from headrace.ops._arrays import Array, as_count, as_key, as_num_threads, as_numpy, graph_arrays
from headrace.ops.errors import InputError


@dataclass(frozen=True)
class Subgraph:
    """All edges between some nodes, in local ids: positions in the list of nodes.

    Attributes
    ----------
    indptr : torch.Tensor
        int64[num_nodes + 1].
    indices : torch.Tensor
        [num_edges] of the graph's index dtype, local ids of the sources.
    positions : torch.Tensor
        int64[num_edges], the positions of edges in the graph's CSC arrays.
    """

    indptr: torch.Tensor
    indices: torch.Tensor
    positions: torch.Tensor


@dataclass(frozen=True)
class NodeLaw:
    """Draw nodes in proportion to the squared norms of the columns of the row-normalised adjacency matrix.

    Attributes
    ----------
    probability : torch.Tensor
        float64[num_nodes], the probability of each node in one draw; 0 without out-edges.
    sums : torch.Tensor
        float64[num_nodes], running sums in proportion to it, for draws.
    """

    probability: torch.Tensor
    sums: torch.Tensor


@dataclass(frozen=True)
class EdgeLaw:
    """Draw edge u -> v in proportion to 1 / (in-degree of v): a uniform node with in-edges, then one of its in-edges.

    If every edge exists in both directions, the pair of u and v is drawn in proportion to 1 / (degree of u) + 1 /
    (degree of v), the law of the paper.

    Attributes
    ----------
    destinations : torch.Tensor
        int64[num_destinations], the nodes with in-edges.
    probability : torch.Tensor
        float64[num_nodes], the probability that a draw returns an edge that begins or ends at the node.
    """

    destinations: torch.Tensor
    probability: torch.Tensor


def node_law(indptr: Array, indices: Array) -> NodeLaw:
    """Return the law of GraphSAINT's node sampler: node u in proportion to the sum of in_degree(w)^-2 over u -> w.

    Parallel edges count one by one. One pass over the edges; do it once per graph.

    Raises
    ------
    InputError
        If the graph's arrays are malformed, or it has no edges.
    """
    starts, sources = graph_arrays(indptr, indices, "node_law")
    _some_edges(sources.size, "node_law")
    sums = np.cumsum(_native.sum_inverse_degrees(starts, sources, 2, False))
    probability = np.diff(sums, prepend=0.0) / sums[-1]
    return NodeLaw(torch.from_numpy(probability), torch.from_numpy(sums))


def edge_law(indptr: Array, indices: Array) -> EdgeLaw:
    """Return the law of GraphSAINT's edge sampler. One pass over the edges; do it once per graph.

    Raises
    ------
    InputError
        If the graph's arrays are malformed, or it has no edges.
    """
    starts, sources = graph_arrays(indptr, indices, "edge_law")
    _some_edges(sources.size, "edge_law")
    has_in_edges = np.diff(starts) > 0
    destinations = np.flatnonzero(has_in_edges).astype(np.int64)
    touches = _native.sum_inverse_degrees(starts, sources, 1, True) + has_in_edges
    return EdgeLaw(torch.from_numpy(destinations), torch.from_numpy(touches / len(destinations)))


def draw_nodes(law: NodeLaw, num_draws: int, *, key: int, num_threads: int = 1) -> torch.Tensor:
    """Draw nodes independently, with replacement.

    Parameters
    ----------
    law : NodeLaw
        From `node_law`.
    num_draws : int
        How many.
    key : int
        Stream key; draw i uses stream i.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        int64[num_draws].
    """
    stage = "draw_nodes"
    _check_kind(law, "law", (NodeLaw,), stage)
    return torch.from_numpy(
        _native.draw_by_weight(
            as_numpy(law.sums, "law.sums", stage=stage, dtypes=("float64",)),
            as_count(num_draws, "num_draws", stage=stage),
            as_key(key, stage=stage),
            as_num_threads(num_threads, stage=stage),
        )
    )


def draw_edges(
    indptr: Array, indices: Array, law: EdgeLaw, num_draws: int, *, key: int, num_threads: int = 1
) -> torch.Tensor:
    """Draw edges independently, with replacement.

    Parameters
    ----------
    indptr, indices : torch.Tensor or numpy.ndarray
        The graph.
    law : EdgeLaw
        From `edge_law` of this graph.
    num_draws : int
        How many.
    key : int
        Stream key; draw i uses stream i.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        int64[num_draws, 2], source and destination.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If the law belongs to another graph.
    """
    stage = "draw_edges"
    _check_kind(law, "law", (EdgeLaw,), stage)
    starts, sources = graph_arrays(indptr, indices, stage)
    drawn = _native.draw_edges(
        starts,
        sources,
        as_numpy(law.destinations, "law.destinations", stage=stage),
        as_count(num_draws, "num_draws", stage=stage),
        as_key(key, stage=stage),
        as_num_threads(num_threads, stage=stage),
    )
    return torch.from_numpy(drawn).reshape(-1, 2)


def induced_subgraph(indptr: Array, indices: Array, nodes: Array, *, num_threads: int = 1) -> Subgraph:
    """Return all edges that begin and end among some nodes.

    Time and memory follow the nodes and their in-degrees, not the size of the graph.

    Parameters
    ----------
    indptr : torch.Tensor or numpy.ndarray
        int64[num_nodes + 1].
    indices : torch.Tensor or numpy.ndarray
        int32[num_graph_edges] or int64[num_graph_edges].
    nodes : torch.Tensor or numpy.ndarray
        int64[num_nodes], distinct, in the order of the subgraph. Edges of a node stay in CSC order.
    num_threads : int
        The result does not depend on it.

    Raises
    ------
    InputError
        If the graph's arrays are malformed.
        If nodes occur twice or are not in the graph.
    """
    stage = "induced_subgraph"
    starts, sources = graph_arrays(indptr, indices, stage)
    arrays = _native.induced_subgraph(
        starts,
        sources,
        as_numpy(nodes, "nodes", stage=stage),
        as_num_threads(num_threads, stage=stage),
    )
    return Subgraph(*(torch.from_numpy(array) for array in arrays))


def inclusion_probability(probability: torch.Tensor, num_draws: int) -> torch.Tensor:
    """Return 1 - (1 - probability)^num_draws, the probability that at least one draw succeeds; float64 in and out.

    By doubling, f(2n) = f(n) (2 - f(n)), and f(n + 1) = f(n) + p (1 - f(n)): no digits are lost for small
    probabilities, and no function of the C library, whose last bit depends on the machine, is called.

    Raises
    ------
    InputError
        If the probability is not a float64 tensor, or the number of draws is negative.
    """
    stage = "inclusion_probability"
    _check_kind(probability, "probability", (torch.Tensor,), stage)
    if probability.dtype != torch.float64:
        message = f"{stage}: expected probability to be a float64 tensor, got {probability.dtype}"
        raise InputError(message)
    result = torch.zeros_like(probability)
    for bit in f"{as_count(num_draws, 'num_draws', stage=stage):b}":
        result = result * (2.0 - result)
        if bit == "1":
            result = result + probability * (1.0 - result)
    return result


def subgraph_weights(
    subgraph: Subgraph,
    law: NodeLaw | EdgeLaw,
    nodes: torch.Tensor,
    degrees: torch.Tensor,
    num_draws: int,
    *,
    num_threads: int = 1,
) -> torch.Tensor:
    """Return the weights of the edges of a subgraph from independent draws, in closed form.

    The weight of edge u -> v is P(v) / P(u and v) times the share of v's in-edges in the subgraph. So the *plain mean*
    of messages times weights is the estimate of GraphSAINT: given v, its expectation is the mean over all in-neighbours
    of v. (A mean weighted by them is the Hajek estimate.)

    Parameters
    ----------
    subgraph : Subgraph
        From `induced_subgraph`.
    law : NodeLaw or EdgeLaw
        The law of each draw.
    nodes : torch.Tensor
        int64[num_nodes], global ids of the subgraph's nodes.
    degrees : torch.Tensor
        int64[num_nodes], their in-degrees in the whole graph.
    num_draws : int
        The number of draws.
    num_threads : int
        The result does not depend on it.

    Returns
    -------
    torch.Tensor
        float32[num_edges].

    Raises
    ------
    InputError
        If there is not one degree per node.
        If nodes are not in the graph of the law.
    """
    stage = "subgraph_weights"
    _check_kind(subgraph, "subgraph", (Subgraph,), stage)
    _check_kind(law, "law", (NodeLaw, EdgeLaw), stage)
    starts, sources = graph_arrays(subgraph.indptr, subgraph.indices, stage)
    in_degrees = as_numpy(degrees, "degrees", stage=stage)
    probability = as_numpy(law.probability, "law.probability", stage=stage, dtypes=("float64",))
    ids = as_numpy(nodes, "nodes", stage=stage)
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < probability.size:
        message = (
            f"{stage}: expected nodes to be ids of at least 0 and below num_nodes = {probability.size}, "
            f"got {ids.min()} to {ids.max()}: is the law another graph's?"
        )
        raise InputError(message)
    touch = probability[ids]
    if not in_degrees.size == touch.size == starts.size - 1:
        message = (
            f"{stage}: expected nodes and degrees to have one entry per node ({starts.size - 1}), "
            f"got {touch.size} and {in_degrees.size}"
        )
        raise InputError(message)
    return torch.from_numpy(
        _native.saint_weights(
            starts,
            sources,
            touch,
            in_degrees,
            as_count(num_draws, "num_draws", stage=stage),
            len(law.destinations) if isinstance(law, EdgeLaw) else 0,
            as_num_threads(num_threads, stage=stage),
        )
    )


def _check_kind(value: object, name: str, kinds: tuple[type, ...], stage: str) -> None:
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        message = f"{stage}: expected {name} to be a {names}, got {type(value).__name__}"
        raise InputError(message)


def _some_edges(num_edges: int, stage: str) -> None:
    if num_edges == 0:
        message = f"{stage}: the graph has no edges, so there is nothing to draw by; expected at least one"
        raise InputError(message)
