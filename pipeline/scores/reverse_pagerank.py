"""Scores of the edges alone: out-degrees, and reverse PageRank, whose scores flow against messages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headrace.ops import InputError, sum_to_sources
from headrace.pipeline.data import Graph, ItemSet, whole_number
from headrace.pipeline.scores.arguments import check_damping, check_whole_graph, shown


def out_degree(graph: Graph, *, num_threads: int | None = None) -> Tensor:
    """Return the number of out-edges of each node: the edges through which its features are read.

    Parameters
    ----------
    graph : Graph
        A whole graph.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it.

    Returns
    -------
    torch.Tensor
        float64[num_nodes].

    Raises
    ------
    InputError
        If `graph` is not a whole graph.

    Examples
    --------
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 0, 1], [1, 2, 2])
    >>> hr.scores.out_degree(graph).tolist()
    [2.0, 1.0, 0.0]
    """
    check_whole_graph("out_degree", graph)
    ones = torch.ones(graph.num_nodes, dtype=torch.float64, device="cpu")
    degrees = sum_to_sources(graph.indptr, graph.indices, ones, num_threads=num_threads)
    return graph.by_original_ids(degrees)


MOST_ITERATIONS = 10_000


def reverse_pagerank(
    graph: Graph,
    *,
    damping: float = 0.85,
    iterations: int = 50,
    num_threads: int | None = None,
    progress: bool = False,
) -> Tensor:
    """Return the PageRank of the reversed graph: the visits of each node by a random walk *against* the edges.

    ``s(u) = (1 - damping) / N + damping * (sum of s(v) / in-degree(v) over the edges u -> v)``. Node v samples its
    in-neighbours uniformly, so it passes its score on to them in equal shares. Nodes without in-edges pass nothing on,
    so the scores sum to 1 at most.

    Parameters
    ----------
    graph : Graph
        A whole graph.
    damping : float
        How much of a score is passed on, in [0, 1).
    iterations : int
        Rounds from equal scores; 50 are exact to 0.0003 of their sum at a damping of 0.85.
    num_threads : int, optional
        Default: the cores this process may use. The result does not depend on it, in any bit.
    progress : bool
        Show a bar of rounds, where stderr is a terminal or a notebook.

    Returns
    -------
    torch.Tensor
        float64[num_nodes].

    Raises
    ------
    InputError
        If `graph` is no whole graph, or a number is out of range.

    Examples
    --------
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 0, 1], [1, 2, 2])  # both others listen to node 0
    >>> hr.scores.ranking(hr.scores.reverse_pagerank(graph)).tolist()
    [0, 1, 2]
    """
    check_whole_graph("reverse_pagerank", graph)
    start = torch.full((graph.num_nodes,), 1 / graph.num_nodes, dtype=torch.float64, device="cpu")
    return _propagated(graph, start, "reverse_pagerank", damping, iterations, num_threads, progress)


def weighted_reverse_pagerank(
    graph: Graph,
    items: Any,
    *,
    damping: float = 0.85,
    iterations: int = 5,
    num_threads: int | None = None,
    progress: bool = False,
) -> Tensor:
    """Return the score of Data Tiering (arXiv 2111.05894): reverse PageRank that starts at the labelled nodes.

    Labelled nodes start with 1 / (number of labelled nodes), all others with 1 / N. Scores are passed on as in
    `reverse_pagerank`, but in a few rounds only, so that the start still matters: after five rounds at a damping of
    0.85 it has a weight of 0.85 ** 5 = 0.44.

    Parameters
    ----------
    graph : Graph
        A whole graph.
    items
        The labelled nodes, as `hr.ItemSampler` takes its items: ids, a bool mask, a count, or any of these with labels.
    damping : float
        The share of a score that is passed on, in [0, 1). The paper does not state it; 0.85 is the usual value, and
        that of its authors' later code.
    iterations : int
        The number of rounds; 5 in the paper, about the number of layers, not until convergence.
    num_threads, progress
        As for `reverse_pagerank`.

    Returns
    -------
    torch.Tensor
        float64[num_nodes].

    Raises
    ------
    InputError
        If `graph` is not a whole graph, a number is out of range, or items are not nodes of the graph.

    Examples
    --------
    >>> import headrace as hr
    >>> graph = hr.Graph.from_coo([0, 1, 2, 3], [1, 0, 3, 2])  # two rings, a label in the first
    >>> hr.scores.ranking(hr.scores.weighted_reverse_pagerank(graph, [0])).tolist()
    [1, 0, 2, 3]
    """
    stage = "weighted_reverse_pagerank"
    check_whole_graph(stage, graph)
    labelled = graph.to_graph_ids(labelled_nodes(graph.num_nodes, items, f"scores.{stage}"))
    num_nodes = graph.num_nodes
    start = torch.full((num_nodes,), 1 / num_nodes, dtype=torch.float64, device="cpu")
    start[labelled] *= num_nodes / len(labelled)
    return _propagated(graph, start, stage, damping, iterations, num_threads, progress)


def labelled_nodes(num_nodes: int, items: Any, stage: str) -> Tensor:
    """Return the distinct nodes among items of any spelling, int64[num_labelled], rising."""
    given = ItemSet.of(items)
    if given.mask_size not in (None, num_nodes):
        raise InputError(f"{stage}: expected a mask of {num_nodes} nodes, got one of {given.mask_size}")
    if given.largest_id >= num_nodes:
        raise InputError(
            f"{stage}: expected items that are nodes of the graph, which has {num_nodes}, got {given.largest_id}"
        )
    mask = torch.zeros(num_nodes, dtype=torch.bool, device="cpu")
    mask[given.all_ids().flatten()] = True
    return mask.nonzero().squeeze(1)


def _propagated(
    graph: Graph,
    scores: Tensor,
    stage: str,
    damping: float,
    iterations: int,
    num_threads: int | None,
    progress: bool,
) -> Tensor:
    """Pass scores on from destinations to sources, so many times."""
    kept = check_damping(stage, damping)
    rounds = whole_number(iterations, f"scores.{stage}: iterations", 0, InputError, MOST_ITERATIONS)
    shares = kept / graph.in_degrees().clamp(min=1).double()  # of a node without in-edges nobody gets any
    for _ in shown(range(rounds), rounds, stage, "round", progress=progress):
        passed_on = sum_to_sources(graph.indptr, graph.indices, scores * shares, num_threads=num_threads)
        scores = passed_on.add_((1 - kept) / graph.num_nodes)
    return graph.by_original_ids(scores)
