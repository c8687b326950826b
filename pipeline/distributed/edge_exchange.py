"""Edges on their way from the ranks that own their destinations to the ranks that asked for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.pipeline.data.digest import flat_bytes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Exchange


@dataclass(frozen=True)
class SampledEdges:
    """Edges picked for some destinations, in global ids.

    Parameters
    ----------
    degrees: int64[num_dst]
        Edges of each destination.
    columns
        What is known of each edge, tensors of one row per edge: neighbours, edge ids, weights.
    """

    degrees: Tensor
    columns: tuple[Tensor, ...]

    def take(self, rows: Tensor) -> SampledEdges:
        """Return the edges of the destinations `rows`, int64[n], in that order."""
        degrees = self.degrees[rows]
        starts = (self.degrees.cumsum(0) - self.degrees)[rows]
        edges = torch.arange(int(degrees.sum()), device=degrees.device)
        edges += torch.repeat_interleave(starts - (degrees.cumsum(0) - degrees), degrees)
        return SampledEdges(degrees, tuple(column[edges] for column in self.columns))


def return_edges(edges: SampledEdges, exchange: Exchange, comm: Comm) -> tuple[SampledEdges, int]:
    """Send the edges of owned destinations to those who want them: one round.

    Parameters
    ----------
    edges
        Picked for ``exchange.owned``.
    exchange
        Who wants which of them.
    comm
        The channel.

    Returns
    -------
    SampledEdges
        For the nodes that ``exchange.wanted`` was made of, in their order.
    sent_bytes
        What went to other ranks.
    """
    asked = edges.take(exchange.send_rows)
    # Everything for one rank is one message: degrees, then column after column.
    messages, start = [], 0
    for degrees in asked.degrees.split(list(exchange.send_counts)):  # type: ignore[no-untyped-call]
        stop = start + int(degrees.sum())
        parts = [flat_bytes(degrees), *(flat_bytes(column[start:stop]) for column in asked.columns)]
        messages.append(torch.cat(parts))
        start = stop
    sizes = [len(message) for message in messages]
    arriving = comm.all_to_all_counts(sizes)
    received = comm.all_to_all(torch.cat(messages), sizes, arriving).split(arriving)  # type: ignore[no-untyped-call]
    own = edges.take(torch.arange(exchange.num_own, device=edges.degrees.device))
    all_degrees, all_columns = [own.degrees], [[column] for column in own.columns]
    for message, count in zip(received, exchange.receive_counts, strict=True):
        degrees, rest = _read(message, count, edges.degrees)
        all_degrees.append(degrees)
        num_edges = int(degrees.sum())
        for like, parts in zip(edges.columns, all_columns, strict=True):
            column, rest = _read(rest, num_edges, like)
            parts.append(column)
    came = SampledEdges(torch.cat(all_degrees), tuple(map(torch.cat, all_columns)))
    returned = came if exchange.places is None else came.take(exchange.places)
    return returned, sum(sizes)  # nothing for this rank is among the messages


def _read(message: Tensor, count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first `count` values of a message, of the dtype of `like`, and the rest of it."""
    size = count * like.element_size()
    return message[:size].clone().view(like.dtype), message[size:]
