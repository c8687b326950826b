"""Reductions of messages to destinations, of which each part of the edges has a share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

#: Kinds of reductions; "logsumexp" is what a softmax over the edges of a destination is made of.
Kind = Literal["sum", "max", "min", "logsumexp"]

_EMPTY: dict[Kind, float] = {"sum": 0.0, "max": -torch.inf, "min": torch.inf, "logsumexp": -torch.inf}


@dataclass
class Share:
    """What the edges of one part add to a reduction.

    Parameters
    ----------
    kind
        The reduction.
    value: [num_dst, ...]
        Of the messages of this part; that of no messages where a destination has none here.
    source: [n, ...]
        The messages.
    index: int64[n]
        Their destinations.
    """

    kind: Kind
    value: Tensor
    source: Tensor
    index: Tensor

    @staticmethod
    def of(kind: Kind, source: Tensor, index: Tensor, num_dst: int) -> Share:
        """Reduce messages, with gradients."""
        empty = source.new_full((num_dst, *source.shape[1:]), _empty(kind, source.dtype))
        if kind == "sum":
            return Share(kind, empty.index_add(0, index, source), source, index)
        places = index.view(-1, *(1 for _ in source.shape[1:])).expand_as(source)
        if kind in ("max", "min"):
            return Share(kind, empty.scatter_reduce(0, places, source, f"a{kind}"), source, index)
        largest = empty.scatter_reduce(0, places, source.detach(), "amax")
        largest = largest.masked_fill(largest.isinf(), 0)
        total = torch.zeros_like(empty).index_add(0, index, (source - largest.index_select(0, index)).exp())
        has = total > 0
        return Share(kind, (largest + total.where(has, 1.0).log()).where(has, -torch.inf), source, index)

    def ties(self) -> Tensor | None:
        """Return how many messages a destination has of its largest or smallest value: [num_dst, ...]; else None."""
        if self.kind not in ("max", "min"):
            return None
        value = self.value.detach()
        same = (self.source == value.index_select(0, self.index)).to(value.dtype)
        return torch.zeros_like(value).index_add(0, self.index, same)


class Statistic:
    """A reduction of the messages of all parts, or of those so far.

    Attributes
    ----------
    kind
        The reduction.
    value : torch.Tensor
        [num_dst, ...].
    ties : torch.Tensor or None
        Of largest and smallest messages, how many have that value: [num_dst, ...]; 0 for a destination without edges.
    """

    def __init__(self, like: Share, num_dst: int) -> None:
        self.kind = like.kind
        self.value = like.value[:0]
        self.value = self.nothing(num_dst)
        self.ties = torch.zeros_like(self.value) if self.kind in ("max", "min") else None

    def nothing(self, num_rows: int) -> Tensor:
        """Return the reductions of no messages, [num_rows, ...]."""
        return self.value.new_full((num_rows, *self.value.shape[1:]), _empty(self.kind, self.value.dtype))

    def add(self, value: Tensor, ties: Tensor | None, at: Tensor | None = None) -> None:
        """Take in the messages of one more part.

        Parameters
        ----------
        value, ties: [n, ...]
            Of a `Share`.
        at: int64[n], optional
            Distinct destinations that they belong to; by default all.
        """
        rows: Any = slice(None) if at is None else at
        if self.kind == "sum":
            self.value[rows] += value
        elif self.kind == "logsumexp":
            self.value[rows] = torch.logaddexp(self.value[rows], value)
        else:
            assert self.ties is not None  # they are counted
            assert ties is not None
            before = self.value[rows]
            merged = (torch.maximum if self.kind == "max" else torch.minimum)(before, value)
            here = ties.where(value == merged, 0)
            self.ties[rows] = self.ties[rows].where(before == merged, 0) + here
            self.value[rows] = merged

    def gradient_of(self, value: Tensor, ties: Tensor | None, gradient: Tensor, at: Tensor | None = None) -> Tensor:
        """Return the gradient of a part's share, from that of the whole; among equal messages it is divided evenly.

        Parameters
        ----------
        value, ties, at
            As for `add`.
        gradient: [num_dst, ...]
        """
        rows: Any = slice(None) if at is None else at
        if self.kind == "sum":
            return gradient[rows]
        if self.kind == "logsumexp":
            part = (value - self.value[rows]).exp()
            return gradient[rows] * part.where(value > -torch.inf, 0.0)
        assert self.ties is not None  # they were counted
        assert ties is not None
        here = ties.where(value == self.value[rows], 0)
        return gradient[rows] * here / self.ties[rows].clamp(min=1)


def reduced(messages: Tensor, index: Tensor, num_dst: int, kind: str) -> Tensor:
    """Return the "sum", "mean", "max" or "min" of messages of each destination, [num_dst, ...]; 0 without edges."""
    nothing = messages.new_zeros(num_dst, *messages.shape[1:])
    if kind in ("max", "min"):
        places = index.view(-1, *(1 for _ in messages.shape[1:])).expand_as(messages)
        return nothing.scatter_reduce(0, places, messages, f"a{kind}", include_self=False)
    sums = nothing.index_add(0, index, messages)
    if kind == "sum":
        return sums
    counts = messages.new_zeros(num_dst).index_add(0, index, messages.new_ones(len(index)))
    return sums / counts.clamp(min=1).view(-1, *(1 for _ in messages.shape[1:]))


def _empty(kind: Kind, dtype: torch.dtype) -> float:
    """Return the reduction of no messages, as far as a dtype has it."""
    if dtype.is_floating_point or kind == "sum":
        return _EMPTY[kind]
    return torch.iinfo(dtype).min if kind == "max" else torch.iinfo(dtype).max
