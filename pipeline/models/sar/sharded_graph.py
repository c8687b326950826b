"""A graph in shards, for training on all of it: each rank passes messages to the nodes that it owns."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from headrace.ops import AttentionDropout, InputError
from headrace.ops.aggregate.compiling import uncompiled
from headrace.ops.aggregate.precision import casting_as_now, widened
from headrace.pipeline.data import Graph, is_one_of, whole_number
from headrace.pipeline.distributed.channel import Comm, check_channel
from headrace.pipeline.distributed.comm import world_comm
from headrace.pipeline.distributed.graph_shard import GraphShard
from headrace.pipeline.distributed.job import is_distributed
from headrace.pipeline.models.by_parts.update_all import Message
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.sar.attention import Attend, Options
from headrace.pipeline.models.sar.messages import Update, UpdateAll
from headrace.pipeline.models.sar.rank_edges import RankEdges, part_of
from headrace.pipeline.models.sar.rank_graph import RankGraph, report
from headrace.pipeline.models.sar.reductions import reduced
from headrace.pipeline.models.sar.rounds import Mode
from headrace.pipeline.models.sar.transfer import Counts
from headrace.pipeline.partition.partition import Partition

MODES = ("sar", "sequential", "one-shot")


class ShardedGraph(RankGraph):
    """A rank's part of a graph, with edges sharded by the owners of sources: a `MessageGraph` over the owned nodes.

    Layers take and return rows of owned nodes, in ascending order of their ids. An aggregation receives the rows of
    other ranks shard by shard and frees them at once (sequential aggregation and rematerialisation, SAR, arXiv
    2111.06483). So a rank holds its own rows and those of one shard, for a graph of any size. Results and gradients are
    those of one process, up to the order of sums.

    The backward pass needs these rows of other ranks:

    - none for sums, means, maxima and minima, with or without weights: it only sends gradients to the owners;
    - all rows again, in the same rounds, for the gradient of weights, for attention and for messages of your own.

    A tensor that requires no gradient gets none: nothing is sent for raw features. All ranks must agree on which
    tensors require gradients, and must make the same sequence of layer and ``backward()`` calls. A rank without nodes,
    or without labelled nodes, makes the same calls, with a loss of 0 that is computed from the model's output. Divide
    the sum of losses by a number that all ranks share, ``graph.total(len(labelled))``, and sum gradients by
    ``hr.sum_gradients(model, graph.comm)``. Second derivatives are not supported.

    >>> import headrace as hr, torch
    >>> whole = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], num_nodes=3)
    >>> graph = hr.sar.ShardedGraph(whole)  # one rank; otherwise also a partition, and torch.distributed's ranks
    >>> graph.aggregate(graph.rows(torch.eye(3))).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]

    Train inside ``with graph:``, so that an error on one rank, anywhere in the step, reaches the others: they raise
    `PeerError` with its traceback where they would wait for it. Ranks that diverge without an error, because of another
    order or mode of layers or a missing step, raise `PeerError` with the exchange that each of them is about to make.

    Besides rows, a rank keeps its edges in shards, with row starts for the owned nodes in each shard: in total 8 bytes
    per node of the whole graph, and as much for gradients, for any number of ranks. The given part of the graph, with
    its row starts for all nodes, is released afterwards; both are in memory during the construction.

    >>> with graph:
    ...     out = graph.aggregate(graph.rows(torch.eye(3)))

    Parameters
    ----------
    graph
        The whole graph on every rank, or this rank's part of it, ``hr.Graph.shard(partition)``.
    partition
        The owner of each node, a part for each rank. By default that of the given part, or one owner for one rank.
    comm
        The channel; by default that of torch.distributed if it is initialised, otherwise this process is the only rank.
    mode
        "sar". For comparison: "sequential", which keeps rows of other ranks until the backward pass, and "one-shot",
        which also receives all of them at once.
    prefetch
        1: receive the rows of the next shard during the work on one, with two in memory. 0: one shard at a time.

    Attributes
    ----------
    owned : torch.Tensor
        int64[num_dst], the ids of this rank's nodes, ascending: the nodes of rows.
    edge_ids : torch.Tensor
        int64[num_edges], the ids of its edges: the edges of entries in arrays of edges.
    edge_attrs : Mapping
        The graph's edge attributes, rows in the order of `edge_ids`.
    counts : Counts
        Rounds, bytes, and rows of other ranks in memory.
    comm : Comm or None
        The channel; None for one process.
    rank, world_size : int
        This rank, and how many there are.

    Raises
    ------
    InputError
        If the partition has another number of nodes, or does not have a part for each rank.
        For an unknown mode or prefetch; for prefetch in mode "one-shot", where it has no effect; if arguments differ
        between ranks.
    PeerError
        If another rank failed, was lost, does not arrive, or makes another exchange; in each method that passes
        messages, and in the backward pass.
    """

    def __init__(
        self,
        graph: Graph | GraphShard,
        partition: Partition | None = None,
        comm: Comm | None = None,
        *,
        mode: Mode = "sar",
        prefetch: int = 0,
    ) -> None:
        check_channel(comm, "ShardedGraph")
        if comm is None and is_distributed():
            comm = world_comm()
        rank, world_size = (0, 1) if comm is None else (comm.rank, comm.world_size)
        try:  # all that one rank alone may have wrong: the others hear of it
            prefetch = whole_number(prefetch, "ShardedGraph: prefetch", 0, InputError, 1)
            _check_mode(mode, prefetch)
            part = part_of(graph, partition, rank, world_size)
        except Exception as error:
            report(error, comm)
            raise
        counts = Counts()
        super().__init__(RankEdges.of(part, comm if world_size > 1 else None, mode, prefetch, counts), comm, counts)

    @uncompiled
    def aggregate(self, x: Tensor, *, reduce: Reduce = "sum", weight: Tensor | None = None) -> Tensor:
        """Return the reduced messages ``weight[e] * x[source of e]`` of each owned node.

        Parameters
        ----------
        x: [num_src, ...]
            Rows of owned nodes, float32 or float64. Rows of narrower dtypes from ``torch.autocast`` are reduced in
            float32, here and in the other methods.
        reduce
            "sum"; "mean", which divides by the in-degree in the whole graph, or by the sum of the weights; "max" and
            "min", column by column: among equal messages the first edge in the CSC of the whole graph gets the whole
            gradient, for any number of ranks. A node without edges gets 0.
        weight: [num_edges] or [num_edges, heads], optional
            Of the dtype of `x`; for heads the rows of `x` are [heads, ...].

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            For another `reduce` or another number of rows.
            For other shapes and dtypes.
        """
        x, weight = widened(x), widened(weight)
        divisors = None
        if reduce == "mean" and weight is None:
            divisors = self._edges.in_degrees.clamp(min=1).to(x.dtype)
        return reduced(x, reduce, weight, divisors, self.sum_edges, self._rounds)

    @uncompiled
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

        On a CPU no array of edges times heads is made, except `edge_scores` and its gradient.

        Parameters
        ----------
        x: [num_src, heads, ...]
            What is summed.
        source_scores: [num_src, heads]
        destination_scores: [num_dst, heads]
        edge_scores: [num_edges, heads], optional
            An edge of score -inf does not count.
        slope
            Of negative scores.
        dropout
            The probability that an edge and head does not count.
        key
            The key of the masks, besides the ids of edges: the same on all ranks, another one in each layer and step.

        Returns
        -------
        Tensor
            [num_dst, heads, ...].

        Raises
        ------
        InputError
            For another number of rows.
            For other shapes and dtypes.
        """
        self._check_edges(edge_scores, "edge_scores")
        options = Options(slope, AttentionDropout.of(dropout, key, self.edge_ids))
        rows, *both = (widened(one) for one in (x, source_scores, destination_scores))
        out: Tensor = Attend.apply(rows, *both, widened(edge_scores), options, self._rounds)  # type: ignore[no-untyped-call]
        return out

    @uncompiled
    def update_all(
        self,
        message: Message,
        x: Tensor,
        *,
        reduce: Reduce = "sum",
        destination: Tensor | None = None,
        edge: Tensor | None = None,
        parameters: Iterable[Tensor] = (),
    ) -> Tensor:
        """Return the reduced messages of your own function.

        ``message(source_rows, destination_rows, edge_rows)`` is called for the edges of one shard at a time, with a row
        for each edge, and None for rows that were not given. It returns a message for each edge, which must depend only
        on the rows of the edge and on parameters, because the shards decide which edges are in one call. The backward
        pass receives the rows of other ranks again. It calls the function again for each shard, with the random numbers
        of the first call, and frees the autograd graph of one shard before the next. An extra call, for one edge, finds
        the parameters.

        >>> import headrace as hr, torch
        >>> graph = hr.sar.ShardedGraph(hr.Graph.from_coo([0, 1, 2], [1, 2, 2], num_nodes=3))
        >>> layer = torch.nn.Linear(4, 2)
        >>> out = graph.update_all(lambda source, destination, edge: layer(source - destination).relu(),
        ...                        torch.randn(3, 4), destination=torch.randn(3, 4), reduce="max")
        >>> out.sum().backward()
        >>> layer.weight.grad.shape
        torch.Size([2, 4])

        Parameters
        ----------
        message
            The function.
        x: [num_src, ...]
            Rows of owned nodes, as sources.
        reduce
            As for `aggregate`; for messages of float32 or float64.
        destination: [num_dst, ...], optional
            Rows of owned nodes, as destinations.
        edge: [num_edges, ...], optional
            Rows of edges.
        parameters
            Tensors with gradients that the function uses besides its rows. They may be computed, but not from one
            another. Parameters of modules are found automatically.

        Returns
        -------
        Tensor
            [num_dst, ...].

        Raises
        ------
        InputError
            If a gradient would be lost: the function uses a tensor that was computed outside of it, or, in the backward
            pass, a parameter that it did not use in its first call. If a gradient would count twice: a parameter was
            computed from another. For messages of a wrong shape.
        """
        if not is_one_of(reduce, ("sum", "mean", "max", "min")):
            raise InputError(f'update_all: expected reduce to be "sum", "mean", "max" or "min", got {reduce!r}')
        self._check_edges(edge, "edge")
        if destination is not None and len(destination) != self.num_dst:
            raise InputError(f"destination: expected {self.num_dst} rows, got {list(destination.shape)}")
        x = widened(x)  # as it travels
        casting = casting_as_now(x.device.type)
        update = Update(message, reduce, self._edges.in_degrees.clamp(min=1), self._rounds, casting)
        used = [*{id(one): one for one in parameters if one.requires_grad}.values()]
        if torch.is_grad_enabled():
            used = update.find_parameters(x, destination, edge, used)
        out: Tensor = UpdateAll.apply(update, x, destination, edge, *used)  # type: ignore[no-untyped-call]
        return out


def _check_mode(mode: str, prefetch: int) -> None:
    if not is_one_of(mode, MODES):
        raise InputError(f"ShardedGraph: expected mode to be one of {', '.join(MODES)}, got {mode!r}")
    if mode == "one-shot" and prefetch:
        raise InputError(
            'ShardedGraph: expected prefetch=0 in mode "one-shot", in which the rows of all shards come at once, got '
            f"{prefetch}; leave it out"
        )
