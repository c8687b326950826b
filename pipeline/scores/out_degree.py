"""How many edges leave each node."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops.graphs.spread import sum_to_sources
from headrace.pipeline.data.graph import Graph
from headrace.pipeline.scores.arguments import check_whole_graph


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
