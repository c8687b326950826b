"""Message passing over a block by plain operations of torch: what every other message graph must agree with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

import headrace as hr


class PlainGraph:
    """A `MessageGraph` that writes a message for each edge."""

    def __init__(self, block: hr.Block) -> None:
        self.num_src, self.num_dst, self.num_edges = block.num_src, block.num_dst, block.num_edges
        self.edge_ids = block.edge_ids
        self._src, self._dst = block.edge_index

    def aggregate(self, x: Tensor, *, reduce: str = "sum", weight: Tensor | None = None) -> Tensor:
        messages = x[self._src]
        if weight is not None:
            messages = messages * weight.view(*weight.shape, *[1] * (messages.ndim - weight.ndim))
        if reduce in ("max", "min"):
            return self._extreme(messages, reduce)
        sums = self._sum(messages)
        if reduce == "sum":
            return sums
        counts = self._sum(torch.ones(self.num_edges, dtype=x.dtype) if weight is None else weight)
        counts = torch.where(counts == 0, 1, counts)
        return sums / counts.view(*counts.shape, *[1] * (sums.ndim - counts.ndim))

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
        score = source_scores[self._src] + destination_scores[self._dst]
        score = F.leaky_relu(score if edge_scores is None else score + edge_scores, slope)
        at = self._dst[:, None].expand(score.shape)
        largest = torch.full((self.num_dst, score.shape[1]), -torch.inf, dtype=x.dtype)
        largest = largest.scatter_reduce(0, at, score.detach(), "amax")
        exps = (score - largest[self._dst]).exp()
        attention = exps / self._sum(exps)[self._dst]
        if dropout > 0:
            attention = attention * _kept(key, self.edge_ids, score.shape[1], dropout)
        return self._sum(x[self._src] * attention.view(*attention.shape, *[1] * (x.ndim - 2)))

    def _sum(self, rows: Tensor) -> Tensor:
        return torch.zeros(self.num_dst, *rows.shape[1:], dtype=rows.dtype).index_add(0, self._dst, rows)

    def _extreme(self, messages: Tensor, reduce: str) -> Tensor:
        """The first edge that has the largest (smallest) message has the gradient."""
        flat = messages.flatten(1) if messages.ndim > 1 else messages[:, None]
        at = self._dst[:, None].expand(flat.shape)
        start = torch.full(
            (self.num_dst, flat.shape[1]), -torch.inf if reduce == "max" else torch.inf, dtype=flat.dtype
        )
        best = start.scatter_reduce(0, at, flat.detach(), f"a{reduce}")
        number = torch.arange(self.num_edges)[:, None].expand(flat.shape)
        number = torch.where(flat.detach() == best[self._dst], number, self.num_edges)
        first = torch.full(best.shape, self.num_edges).scatter_reduce(0, at, number, "amin")
        padded = torch.cat([flat, flat.new_zeros(1, flat.shape[1])])
        return padded.gather(0, first).view(self.num_dst, *messages.shape[1:])


def _kept(key: int, edge_ids: Tensor, num_heads: int, dropout: float) -> Tensor:
    """Return 1 / (1 - dropout) of edges that count, and 0 of others: the attention of edges that are alone."""
    num_edges = len(edge_ids)
    alone = hr.Block(
        torch.arange(num_edges + 1), torch.zeros(num_edges, dtype=torch.int64), 1, num_edges, edge_ids, bipartite=True
    )
    ones, zeros = torch.ones(1, num_heads, 1, dtype=torch.float64), torch.zeros(num_edges, num_heads).double()
    return alone.attend(ones, zeros[:1], zeros, dropout=dropout, key=key)[:, :, 0]
