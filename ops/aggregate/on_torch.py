"""Aggregations by torch's own operations, for devices without a kernel: the same up to rounding, one row per edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from headrace.ops._arrays import Array
    from headrace.ops.aggregate.attention import Attended
    from headrace.ops.aggregate.attention_scores import AttentionScores
    from headrace.ops.aggregate.extreme import Extremes


def _edges(
    indptr: Array, indices: Array, positions: Array | None, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the row of each edge, where it leads to, and its position."""
    starts, others = (torch.as_tensor(array, device=device) for array in (indptr, indices))
    rows = torch.arange(len(starts) - 1, device=device).repeat_interleave(starts.diff(), output_size=others.numel())
    if positions is None:
        places = torch.arange(others.numel(), device=device)
    else:
        places = torch.as_tensor(positions, device=device).long()
    return rows, others.long(), places


def _per_row(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Give values of rows, or of rows and heads, as many dimensions as rows have."""
    return values.reshape(*values.shape, *(1 for _ in range(like.ndim - values.ndim)))


def _messages(x: torch.Tensor, others: torch.Tensor, weight: torch.Tensor | None, places: torch.Tensor) -> torch.Tensor:
    rows = x[others]
    return rows if weight is None else rows * _per_row(weight[places], rows)


def spmm(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    positions: Array | None,
    divisors: torch.Tensor | None,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """Add up messages by `index_add_`."""
    rows, others, places = _edges(indptr, indices, positions, x.device)
    with torch.no_grad():
        result = x.new_zeros(len(indptr) - 1, *x.shape[1:]) if out is None else out
        result.index_add_(0, rows, _messages(x, others, weight, places))
        return result if divisors is None else result.div_(_per_row(divisors, result))


def sddmm(
    indptr: Array,
    indices: Array,
    a: torch.Tensor,
    b: torch.Tensor,
    heads: int | None,
    positions: Array | None,
    winners: torch.Tensor | None,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """Multiply the two rows of each edge and add up."""
    rows, others, places = _edges(indptr, indices, positions, a.device)
    with torch.no_grad():
        products = a[rows] * b[others]
        if winners is not None:
            products = products.where(winners[rows] == _per_row(places, products), 0)
        products = products.flatten(1 if heads is None else 2).sum(-1) if products.ndim > 1 else products
        result = torch.empty_like(products) if out is None else out
        result[places] = products
        return result


def spmm_extreme(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    largest: bool,
    weight: torch.Tensor | None,
    positions: Array | None,
    state: Extremes | None,
    last: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take extremes by `scatter_reduce`, and then the lowest position that has them."""
    rows, others, places = _edges(indptr, indices, positions, x.device)
    shape = (len(indptr) - 1, *x.shape[1:])
    none = -torch.inf if largest else torch.inf
    with torch.no_grad():
        messages = _messages(x, others, weight, places)
        numbers = _per_row(places, messages).expand(messages.shape)
        if state is not None:
            held = state.winners.flatten(1) >= 0 if state.winners.ndim > 1 else state.winners >= 0
            held = held.view(shape)
            rows = torch.cat([rows, torch.arange(shape[0], device=x.device)])
            messages = torch.cat([messages, state.values.where(held, none)])
            numbers = torch.cat([numbers, state.winners.where(held, torch.iinfo(torch.int64).max)])
        index = _per_row(rows, messages).expand(messages.shape)
        values = torch.full(shape, none, dtype=x.dtype, device=x.device)
        values.scatter_reduce_(0, index, messages, "amax" if largest else "amin")
        best = values[rows]
        wins = (messages == best) | (messages.isnan() & best.isnan())
        most = torch.iinfo(torch.int64).max
        winners = torch.full(shape, most, device=x.device)
        winners.scatter_reduce_(0, index, numbers.where(wins, most), "amin")
        winners = winners.where(winners != most, -1)
        if last:
            values = values.where(winners >= 0, 0)
        if state is None:
            return values, winners
        return state.values.copy_(values), state.winners.copy_(winners)


def spmm_winners(
    indptr: Array,
    indices: Array,
    gradients: torch.Tensor,
    winners: torch.Tensor,
    weight: torch.Tensor | None,
    positions: Array | None,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """Add up gradients where edges have won."""
    rows, others, places = _edges(indptr, indices, positions, gradients.device)
    with torch.no_grad():
        messages = _messages(gradients, others, weight, places)
        messages = messages.where(winners[others] == _per_row(places, messages), 0)
        result = gradients.new_zeros(len(indptr) - 1, *gradients.shape[1:]) if out is None else out
        return result.index_add_(0, rows, messages)


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
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    positions: Array | None,
    state: Attended | None,
    last: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute scores, their softmax and the sums, each as an array of all edges."""
    rows, others, places = _edges(indptr, indices, positions, x.device)
    with torch.no_grad():
        _, score = _scores(scores, others, rows, places)
        shape = (len(indptr) - 1, scores.heads)
        if state is None:
            largest, sums = x.new_full(shape, -torch.inf), x.new_zeros(shape)
            out = x.new_zeros(shape[0], *x.shape[1:])
        else:
            out, largest, sums = state
        before = largest.clone()
        # NaN would stay the largest one for ever: it comes in by its exponential.
        finite = score.where(~score.isnan(), -torch.inf)
        largest.scatter_reduce_(0, rows[:, None].expand(score.shape), finite, "amax")
        factor = torch.where(before == -torch.inf, 1, (before - largest).exp())
        exps = _exponentials(score, largest[rows], scores.weight, places)
        sums.mul_(factor).index_add_(0, rows, exps)
        out.mul_(_per_row(factor, out))
        kept = exps * _kept(scores, places, exps)
        out.index_add_(0, rows, _per_row(kept, x) * x[others])
        if last:
            out.div_(_per_row(torch.where(sums == 0, 1, sums), out))
        return out, largest, sums


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


def attend_backward_destinations(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    positions: Array | None,
    out: torch.Tensor | None,
    edge_out: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Add up the gradients of scores by destination."""
    rows, others, places = _edges(indptr, indices, positions, x.device)
    with torch.no_grad():
        by_score, _ = _gradients(rows, others, places, x, scores, attended, gradient)
        if edge_out is None and scores.edge is not None:
            edge_out = torch.zeros_like(scores.edge)
        if edge_out is not None:
            edge_out[places] = by_score
        result = torch.zeros_like(scores.destination) if out is None else out
        return result.index_add_(0, rows, by_score), edge_out


def attend_backward_sources(
    indptr: Array,
    indices: Array,
    x: torch.Tensor,
    scores: AttentionScores,
    attended: Attended,
    gradient: torch.Tensor,
    positions: Array,
    out: tuple[torch.Tensor, torch.Tensor] | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add up the gradients of scores and of rows by source."""
    sources, rows, places = _edges(indptr, indices, positions, x.device)
    with torch.no_grad():
        by_score, attention = _gradients(rows, sources, places, x, scores, attended, gradient)
        by_source, by_x = (torch.zeros_like(scores.source), torch.zeros_like(x)) if out is None else out
        by_source.index_add_(0, sources, by_score)
        by_x.index_add_(0, sources, _per_row(attention, x) * gradient[rows])
        return by_source, by_x
