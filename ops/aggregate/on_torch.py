"""Aggregations by torch's own operations, for devices without a kernel: the same up to rounding, one row per edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from headrace.ops.aggregate.attention import Attended
    from headrace.ops.aggregate.attention_scores import AttentionScores
    from headrace.ops.aggregate.edges import EdgeRows
    from headrace.ops.aggregate.extreme import Extremes


def _edges(rows: EdgeRows, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the row of each edge, where it leads to, and its position."""
    starts, others = (torch.as_tensor(array, device=device) for array in (rows.indptr, rows.indices))
    numbers = torch.arange(rows.num_rows, device=device).repeat_interleave(starts.diff(), output_size=others.numel())
    if rows.positions is None:
        places = torch.arange(others.numel(), device=device)
    else:
        places = torch.as_tensor(rows.positions, device=device).long()
    return numbers, others.long(), places


def _per_row(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Give values of rows, or of rows and heads, as many dimensions as rows have."""
    return values.reshape(*values.shape, *(1 for _ in range(like.ndim - values.ndim)))


def _messages(x: torch.Tensor, others: torch.Tensor, weight: torch.Tensor | None, places: torch.Tensor) -> torch.Tensor:
    rows = x[others]
    return rows if weight is None else rows * _per_row(weight[places], rows)


def spmm(
    rows: EdgeRows,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    divisors: torch.Tensor | None,
    out: torch.Tensor,
    *,
    fresh: bool,
) -> None:
    """Add up messages by `index_add_`."""
    numbers, others, places = _edges(rows, x.device)
    with torch.no_grad():
        if fresh:
            out.zero_()
        out.index_add_(0, numbers, _messages(x, others, weight, places))
        if divisors is not None:
            out.div_(_per_row(divisors, out))


def sddmm(rows: EdgeRows, a: torch.Tensor, b: torch.Tensor, winners: torch.Tensor | None, out: torch.Tensor) -> None:
    """Multiply the two rows of each edge and add up."""
    numbers, others, places = _edges(rows, a.device)
    with torch.no_grad():
        products = a[numbers] * b[others]
        if winners is not None:
            products = products.where(winners[numbers] == _per_row(places, products), 0)
        out[places] = products.flatten(out.ndim).sum(-1) if products.ndim > 1 else products


def spmm_extreme(
    rows: EdgeRows,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    found: Extremes,
    *,
    largest: bool,
    fresh: bool,
    last: bool,
) -> None:
    """Take extremes by `scatter_reduce`, and then the lowest position that has them."""
    numbers, others, places = _edges(rows, x.device)
    shape, most = found.values.shape, torch.iinfo(torch.int64).max
    none = -torch.inf if largest else torch.inf
    with torch.no_grad():
        messages = _messages(x, others, weight, places)
        positions = _per_row(places, messages).expand(messages.shape)
        if not fresh:
            held = found.winners >= 0
            numbers = torch.cat([numbers, torch.arange(shape[0], device=x.device)])
            messages = torch.cat([messages, found.values.where(held, none)])
            positions = torch.cat([positions, found.winners.where(held, most)])
        index = _per_row(numbers, messages).expand(messages.shape)
        values = torch.full(shape, none, dtype=x.dtype, device=x.device)
        values.scatter_reduce_(0, index, messages, "amax" if largest else "amin")
        best = values[numbers]
        wins = (messages == best) | (messages.isnan() & best.isnan())
        winners = torch.full(shape, most, device=x.device)
        winners.scatter_reduce_(0, index, positions.where(wins, most), "amin")
        winners = winners.where(winners != most, -1)
        found.values.copy_(values.where(winners >= 0, 0) if last else values)
        found.winners.copy_(winners)


def spmm_winners(
    rows: EdgeRows,
    gradients: torch.Tensor,
    winners: torch.Tensor,
    weight: torch.Tensor | None,
    out: torch.Tensor,
    *,
    fresh: bool,
) -> None:
    """Add up gradients where edges have won."""
    numbers, others, places = _edges(rows, gradients.device)
    with torch.no_grad():
        messages = _messages(gradients, others, weight, places)
        messages = messages.where(winners[others] == _per_row(places, messages), 0)
        (out.zero_() if fresh else out).index_add_(0, numbers, messages)


def _scores(
    scores: AttentionScores, sources: torch.Tensor, destinations: torch.Tensor, places: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores of edges before and behind their rectifier."""
    plain = scores.source[sources] + scores.destination[destinations]
    if scores.edge is not None:
        plain = plain + scores.edge[places]
    if scores.weight is not None:
        plain = plain.masked_fill((scores.weight[places] == 0)[:, None], -torch.inf)  # such an edge does not count
    return plain, torch.where(_is_kept(plain), plain, plain * scores.slope)


def _is_kept(plain: torch.Tensor) -> torch.Tensor:
    """Return which scores the leaky rectifier leaves as they are: with a slope of 0 one of -inf would be NaN."""
    return (plain > 0) | (plain == -torch.inf)


def _kept(scores: AttentionScores, places: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return what attention is multiplied by: 0 where it is dropped."""
    dropout = scores.dropout
    if dropout is None:
        return torch.ones_like(like)
    from headrace.ops.random.dropout import dropout_mask

    ids = places if dropout.edge_ids is None else torch.as_tensor(dropout.edge_ids, device=like.device)[places]
    mask = dropout_mask(dropout.key, ids.cpu(), scores.heads, dropout.probability).to(like.device)
    return mask.to(like.dtype) / (1 - dropout.probability)


def _exponentials(
    score: torch.Tensor, largest: torch.Tensor, weight: torch.Tensor | None, places: torch.Tensor
) -> torch.Tensor:
    exps = torch.where(score == -torch.inf, score, score - largest).exp()
    return exps if weight is None else exps * weight[places][:, None]


def attend(
    rows: EdgeRows, x: torch.Tensor, scores: AttentionScores, found: Attended, *, fresh: bool, last: bool
) -> None:
    """Compute scores, their softmax and the sums, each as an array of all edges."""
    numbers, others, places = _edges(rows, x.device)
    out, largest, sums = found
    with torch.no_grad():
        _, score = _scores(scores, others, numbers, places)
        if fresh:
            largest.fill_(-torch.inf)
            for part in (out, sums):
                part.zero_()
        before = largest.clone()
        # NaN would stay the largest one for ever: it comes in by its exponential.
        finite = score.where(~score.isnan(), -torch.inf)
        largest.scatter_reduce_(0, numbers[:, None].expand(score.shape), finite, "amax")
        factor = torch.where(before == -torch.inf, 1, (before - largest).exp())
        exps = _exponentials(score, largest[numbers], scores.weight, places)
        sums.mul_(factor).index_add_(0, numbers, exps)
        out.mul_(_per_row(factor, out))
        kept = exps * _kept(scores, places, exps)
        out.index_add_(0, numbers, _per_row(kept, x) * x[others])
        if last:
            out.div_(_per_row(torch.where(sums == 0, 1, sums), out))


def _gradients(
    rows: torch.Tensor,
    sources: torch.Tensor,
    places: torch.Tensor,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the edges' scores, before their rectifier, and their attention behind dropout."""
    plain, score = _scores(scores, sources, rows, places)
    exps = _exponentials(score, attended.largest[rows], scores.weight, places)
    sums = attended.sums[rows]
    attention = torch.where(sums == 0, 0, exps / sums)
    kept = _kept(scores, places, attention)
    products = (gradient[rows] * x[sources]).flatten(2).sum(-1) if x.ndim > 2 else gradient[rows] * x[sources]
    shares = gradient * attended.out
    shares = shares.flatten(2).sum(-1) if x.ndim > 2 else shares
    by_score = attention * (kept * products - shares[rows])
    return torch.where(_is_kept(plain), by_score, by_score * scores.slope), attention * kept


def attend_backward(
    rows: EdgeRows,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    by_score: torch.Tensor,
    *,
    by_edge: torch.Tensor | None = None,
    by_x: torch.Tensor | None = None,
) -> None:
    """Add up the gradients of scores by destination, or of scores and of rows by source."""
    numbers, others, places = _edges(rows, x.device)
    destinations, sources = (numbers, others) if by_x is None else (others, numbers)
    with torch.no_grad():
        of_edges, attention = _gradients(destinations, sources, places, x, scores, attended, gradient)
        by_score.index_add_(0, numbers, of_edges)
        if by_edge is not None:
            by_edge[places] = of_edges
        if by_x is not None:
            by_x.index_add_(0, sources, _per_row(attention, x) * gradient[destinations])
