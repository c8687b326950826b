"""Where negatives of a batch are drawn: from the nodes of the type of each pair's end, on the device of the pairs."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from headrace.ops.gpu import device_of, placed
from headrace.ops.sampling.negatives import draw_negatives
from headrace.pipeline.data.graph_machinery import csc_on
from headrace.pipeline.data.graph_view import GraphView
from headrace.pipeline.data.times import EndsByTime, NodesByTime
from headrace.pipeline.lowered._negatives import Share, in_graph_ids


class NegativeDraws:
    """Draws one end of negatives.

    Parameters
    ----------
    graph
        Whose nodes are drawn.
    column
        Which end of the pairs is of the type that nodes are drawn of.
    weight
        None, "degree" or float64[num_nodes] in the graph's own order.
    by_time
        The nodes, or for "degree" the ends of edges, by time; None to draw from all.
    strictly_before
        With it, whether to leave out those of the time of the pair.
    rejects
        Whether nodes with an edge from the source of the pair are left out.
    num_threads
        On the CPU.
    """

    def __init__(
        self,
        graph: GraphView,
        column: int,
        weight: Any,
        by_time: NodesByTime | EndsByTime | None,
        *,
        strictly_before: bool,
        rejects: bool,
        num_threads: int,
    ) -> None:
        self._graph, self._column, self._by_time = graph, column, by_time
        self._rejects, self._strictly_before, self._num_threads = rejects, strictly_before, num_threads
        # Ends of edges are drawn evenly.
        self._weight = None if by_time is not None and isinstance(weight, str) else weight
        self._sums_on = cache(self._find_sums)

    def draw(self, pairs: Tensor, key: int, share: Share, owners: Tensor, seed_times: Tensor | None) -> Tensor:
        """Return a node for each negative of the pairs, int64[num_negatives], by ids outside the graph.

        Parameters
        ----------
        pairs: int64[num_pairs, 2]
            The positive pairs.
        key
            Of the stream of random numbers.
        share, owners
            How many each pair has, and to which each belongs.
        seed_times: [num_pairs] or None
            When the pairs are, of the kind of the graph's times.
        """
        graph, device = self._graph, pairs.device
        ids, counts = in_graph_ids(graph, pairs), share.counts(device)
        if graph.node_types is None:
            whole = (0, graph.num_nodes)
            return graph.to_original_ids(self._draw(ids, key, share, counts, whole, seed_times, share.num_negatives))
        drawn = torch.empty(share.num_negatives, dtype=torch.int64, device=device)
        bounds, types = graph.node_types.offsets.tolist(), graph.node_types.numbers_of(ids[:, self._column])
        for one in sorted(set(types.tolist())):
            nodes = (bounds[one], bounds[one + 1])
            of_type = self._draw(ids, key, share, torch.where(types == one, counts, 0), nodes, seed_times, None)
            drawn.masked_scatter_(types[owners] == one, of_type)
        return graph.to_original_ids(drawn)

    def _draw(
        self,
        ids: Tensor,
        key: int,
        share: Share,
        counts: Tensor,
        nodes: tuple[int, int],
        seed_times: Tensor | None,
        total: int | None,
    ) -> Tensor:
        """Draw nodes of a range."""
        device, by_time = device_of(ids), self._by_time
        reads_edges = self._rejects or isinstance(self._weight, str)
        order = prefix = None
        if by_time is not None:
            assert seed_times is not None  # of the kind of the graph's
            order = by_time.of_type(*nodes, device)
            prefix = by_time.num_until(*nodes, seed_times, strictly_before=self._strictly_before)
        return draw_negatives(
            *csc_on(self._graph, device, edges=reads_edges),
            counts,
            key=key,
            nodes=nodes,
            weight="degree" if isinstance(self._weight, str) else self._sums_on(*nodes, device),
            reject=ids[:, 0].contiguous() if self._rejects else None,
            order=order,
            prefix=prefix,
            first_pair=share.first,
            total=total,
            num_threads=self._num_threads,
        )

    def _find_sums(self, first: int, last: int, device: torch.device | None) -> Tensor | None:
        """Return the running sums of weights of a range, where a device reads them."""
        weight = self._weight
        if not isinstance(weight, Tensor):
            return None
        of_nodes = weight[first:last] if self._by_time is None else weight[self._by_time.of_type(first, last, None)]
        sums = torch.from_numpy(of_nodes.numpy().cumsum())  # one by one, as the order of additions decides the bits
        return sums if device is None else placed((sums,), device)[0]
