"""Reductions of expressions of edges to nodes, and expressions as tensors of all edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from headrace.ops.aggregate.precision import widened
from headrace.pipeline.models.by_parts.staged import Edges, Staged
from headrace.pipeline.models.message_graph import Reduce
from headrace.pipeline.models.sar.derived import grouped
from headrace.pipeline.models.sar.edge_expressions import EdgeExpression, End
from headrace.pipeline.models.sar.edge_functions import Softmax
from headrace.pipeline.models.sar.edge_parts import Computed, Part
from headrace.pipeline.models.sar.round_passes import Shards


def reduced_expression(messages: EdgeExpression, reduce: Reduce, *, tries: bool) -> Tensor:
    """Return the reduced messages of each destination, [num_dst, ...].

    Rows of sources, and their products with weights of edges, have kernels, for which no rows come again in the
    backward direction.

    Parameters
    ----------
    messages
        The messages.
    reduce
        How; a node without edges gets 0.
    tries
        Whether they are tried with fewer edges.
    """
    graph = messages.context.graph
    _check_unchanged(messages)
    of_kernel = _rows_and_weights(messages)
    if of_kernel is None:
        rows = _summed(messages, "sum" if reduce == "mean" else reduce, tries=tries)
    else:
        rows = graph.aggregate(of_kernel[0], reduce="sum" if reduce == "mean" else reduce, weight=of_kernel[1])
    if reduce != "mean":
        return rows
    degrees = graph.in_degrees().clamp(min=1).to(rows.dtype)  # not the sums of weights, as DGL has it
    return rows / degrees.view(-1, *(1 for _ in rows.shape[1:]))


def computed_values(values: EdgeExpression, *, tries: bool) -> Tensor:
    """Return the values of all edges of this rank, [num_edges, ...], with gradients.

    Parameters
    ----------
    values
        The values.
    tries
        Whether they are tried with fewer edges.
    """
    _check_unchanged(values)
    whole: dict[int, Tensor] = {}
    for softmax in _softmaxes(values):
        scores = _of_all_edges(softmax.parents[0], whole, tries=tries)
        whole[id(softmax)] = _local_softmax(softmax, scores)
    return whole[id(values)] if id(values) in whole else _of_all_edges(values, whole, tries=tries)


def _rows_and_weights(messages: EdgeExpression) -> tuple[Tensor, Tensor | None] | None:
    """Return rows of sources, and weights of edges or None, of messages that are no more than their products."""
    if not all(one.has_gradients for one in (messages, *(messages.factors or ()))):
        return None
    if isinstance(messages, End) and messages.target == "u":
        return (messages.rows, None) if _fits(messages.rows) else None
    if messages.factors is None:
        return None
    ends = {end.target: end.rows for end in messages.factors}
    if ends.keys() != {"u", "e"} or not _fits(ends["u"]) or widened(ends["u"]).dtype != widened(ends["e"]).dtype:
        return None
    rows, weights = ends["u"], ends["e"]
    if weights.shape[1:].numel() == 1 and rows.dim() >= weights.dim():
        return rows, weights.view(-1)
    if rows.dim() == weights.dim() > 2 and rows.shape[1] == weights.shape[1] == weights.shape[1:].numel():
        return rows, weights.reshape(len(weights), -1)  # a number for each head
    return None


def _fits(rows: Tensor) -> bool:
    return rows.dim() > 1 and widened(rows).dtype in (torch.float32, torch.float64)


def _summed(messages: EdgeExpression, reduce: Reduce, *, tries: bool) -> Tensor:
    graph = messages.context.graph
    tables = {number: place for place, number in enumerate(messages.sources)}
    likes = messages.single

    def body(edges: Edges) -> Tensor:
        values: Tensor = widened(Part(edges, tables).value(messages))
        empty = values.new_zeros(edges.num_dst, *likes.shape[1:])
        if reduce == "sum":
            return empty.index_add(0, edges.index, values)
        places = edges.index.view(-1, *(1 for _ in likes.shape[1:])).expand_as(values)
        return empty.scatter_reduce(0, places, values, f"a{reduce}", include_self=False)

    name = f"messages of {messages.context.layer}"
    rows = tuple(map(widened, messages.sources.values()))
    return Staged(body, rows, graph.parts, tries, 0, name)()


def _of_all_edges(values: Computed, whole: Mapping[int, Tensor], *, tries: bool) -> Tensor:
    """Return values of edges, as messages to the edges themselves."""
    assert isinstance(values, EdgeExpression)
    graph, likes = values.context.graph, values.single
    number = graph.num_edges
    device = graph.owned.device
    sources = _sources(values, whole)
    tables = {rows: place for place, rows in enumerate(sources)}
    rounds = graph.parts.rounds
    of_edges = torch.arange(number, device=device)
    shards = tuple(grouped(shard, of_edges, number, number) for shard in rounds.shards)
    before = dict(whole)

    def body(edges: Edges) -> Tensor:
        rows: Tensor = Part(edges, tables, before, graph.destinations).value(values)
        return rows.new_zeros(number, *likes.shape[1:]).index_add(0, edges.index, rows)

    return Staged(
        body,
        tuple(map(widened, sources.values())),
        Shards(
            dataclasses.replace(rounds, shards=shards, num_dst=number),
            graph.edge_ids,
        ),
        tries,
        0,
        f"values of edges of {values.context.layer}",
    )()


def _check_unchanged(values: Computed) -> None:
    """Refuse values of edges that would be others by now: DGL has computed them when they were written."""
    ahead, seen = [values], set[int]()
    while ahead:
        one = ahead.pop()
        if id(one) not in seen:
            seen.add(id(one))
            one.check_unchanged()
            ahead.extend(one.parents)


def _sources(values: Computed, whole: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """Return the rows of which values need those of sources, where others have been computed."""
    sources: dict[int, Tensor] = {}
    ahead, seen = [values], {*whole}
    while ahead:
        one = ahead.pop()
        if id(one) not in seen:
            seen.add(id(one))
            sources |= {} if one.parents else one.sources
            ahead.extend(one.parents)
    return sources


def _softmaxes(values: Computed) -> list[Softmax]:
    """Return the softmaxes that values depend on, those that others depend on first."""
    ordered: dict[int, Softmax] = {}
    seen: set[int] = set()

    def visit(one: Computed) -> None:
        if id(one) in seen:
            return
        seen.add(id(one))
        for parent in one.parents:
            visit(parent)
        if isinstance(one, Softmax):
            ordered[id(one)] = one

    visit(values)
    return [*ordered.values()]


def _local_softmax(softmax: Softmax, scores: Tensor) -> Tensor:
    """Return a softmax over the edges of each destination, which all are on this rank."""
    graph = softmax.context.graph
    ends = graph.destinations
    places = ends.view(-1, *(1 for _ in scores.shape[1:])).expand_as(scores)
    largest = scores.new_full((graph.num_dst, *scores.shape[1:]), -torch.inf)
    largest = largest.scatter_reduce(0, places, scores.detach(), "amax")
    shares = (scores - largest.index_select(0, ends)).exp()
    return shares / graph.sum_edges(shares).index_select(0, ends)
