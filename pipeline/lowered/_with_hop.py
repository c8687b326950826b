"""Hops of users' own samplers: the edges that they chose become a block, as those of headrace's samplers do."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.ops import InputError
from headrace.ops.sampling.sample import Hop as PickedEdges
from headrace.pipeline.data import GraphView, MiniBatch, describe
from headrace.pipeline.lowered import compact
from headrace.pipeline.plan import check_graph
from headrace.pipeline.plan.traits import shard_of_graph


def with_hop(
    batch: MiniBatch, graph: GraphView, degrees: Tensor, positions: Tensor, *, weight: Tensor | None = None
) -> MiniBatch:
    """Return a batch with the edges of one more hop, for samplers of your own.

    All entries of ``batch.n_id`` are destinations. Their sources get local numbers in order of first occurrence, new
    ones behind the entries that are there, in trees where the batch has `slot`. It writes ``n_id``, ``slot``,
    ``types``, ``blocks`` (one more in front), ``num_sampled_nodes`` and ``num_sampled_edges``, which a stage names in
    `writes`.

    >>> import headrace as hr, torch
    >>> graph = hr.Graph.from_coo([1, 2, 0], [0, 0, 2], num_nodes=3)
    >>> seeds = hr.MiniBatch.of_seeds(torch.tensor([0, 2]), epoch=0, index=0)
    >>> batch = hr.ext.with_hop(seeds, graph, degrees=torch.tensor([1, 1]), positions=torch.tensor([1, 2]))
    >>> batch.n_id.tolist(), batch.blocks[0].edge_index.tolist()
    ([0, 2], [[1, 0], [0, 1]])

    Parameters
    ----------
    batch
        The batch.
    graph
        The graph, as a whole.
    degrees: int64[num_dst]
        The number of edges of each entry of ``batch.n_id``.
    positions: int64[num_edges]
        Positions of the edges in the CSC arrays, first those of ``n_id[0]``: in-edges of node v are at
        ``graph.indptr[v]`` to ``graph.indptr[v + 1] - 1``. A graph with `node_ids` has rows of its own ids,
        ``graph.to_graph_ids(batch.n_id)``.
    weight: float[num_edges], optional
        Importance weights, for ``block.weight``.

    Raises
    ------
    InputError
        For another number of degrees or positions, or positions that are no in-edges of their destinations.
    """
    check_graph("with_hop", graph, with_types=True)
    if shard_of_graph(graph) is not None:
        raise InputError(
            f"with_hop: expected a whole graph, got {graph!r}, which has in-edges of its own nodes alone; open the "
            "graph on each rank"
        )
    for name, values, length in (("degrees", degrees, str(len(batch.n_id))), ("positions", positions, "num_edges")):
        if not isinstance(values, Tensor) or values.dtype != torch.int64 or values.ndim != 1 or not values.is_cpu:
            raise InputError(
                f"with_hop: expected {name} to be int64[{length}] in CPU memory, got {describe(values)}; a sampler "
                'that works there has reads_at = hr.Place("cpu"), and copy_to behind it'
            )
    if len(degrees) != len(batch.n_id) or int(degrees.sum()) != len(positions) or bool((degrees < 0).any()):
        raise InputError(
            f"with_hop: expected the number of edges of each of the {len(batch.n_id)} n_id, {len(positions)} in all, "
            f"got {len(degrees)} numbers with the sum {int(degrees.sum())}; count the edges of each destination"
        )
    rows = graph.to_graph_ids(batch.n_id).repeat_interleave(degrees)
    outside = (positions < graph.indptr[rows]) | (positions >= graph.indptr[rows + 1])
    if bool(outside.any()):
        first = int(outside.nonzero()[0])
        raise InputError(
            f"with_hop: expected positions of in-edges of their destinations, got {int(positions[first])} at "
            f"{first}, for node {int(rows[first])}, whose in-edges are at {int(graph.indptr[rows[first]])} to "
            f"{int(graph.indptr[rows[first] + 1]) - 1}; list the edges of n_id[0] first"
        )
    if weight is not None and (not isinstance(weight, Tensor) or weight.shape != positions.shape):
        raise InputError(f"with_hop: expected weight of float[{len(positions)}], got {describe(weight)}")
    neighbors = graph.to_original_ids(graph.indices[positions]).to(graph.indices.dtype)
    indptr = torch.cat([degrees.new_zeros(1), degrees.cumsum(0)])
    hop = PickedEdges(indptr, neighbors, positions, weight)
    return compact.with_hop(batch, hop, graph.original_edge_ids(positions), "all", graph)
