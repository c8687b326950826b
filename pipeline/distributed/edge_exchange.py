"""Edges on their way from the ranks that own their destinations to the ranks that asked for them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headrace.pipeline.data.digest import flat_bytes
from headrace.pipeline.distributed.channel import Comm
from headrace.pipeline.distributed.exchange import Exchange, part_sums


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
    going = asked.degrees.split(list(exchange.send_counts))  # type: ignore[no-untyped-call]
    for degrees, num_edges in zip(going, part_sums(going), strict=True):
        stop = start + num_edges
        parts = [flat_bytes(degrees), *(flat_bytes(column[start:stop]) for column in asked.columns)]
        messages.append(torch.cat(parts))
        start = stop
    sizes = [len(message) for message in messages]
    arriving = comm.all_to_all_counts(sizes)
    received = comm.all_to_all(torch.cat(messages), sizes, arriving).split(arriving)  # type: ignore[no-untyped-call]
    own = edges.take(torch.arange(exchange.num_own, device=edges.degrees.device))
    all_degrees, all_columns = [own.degrees], [[column] for column in own.columns]
    counts = zip(received, exchange.receive_counts, strict=True)
    coming = [_read(message, count, edges.degrees) for message, count in counts]
    for (degrees, behind), num_edges in zip(coming, part_sums(degrees for degrees, _ in coming), strict=True):
        all_degrees.append(degrees)
        rest = behind
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
