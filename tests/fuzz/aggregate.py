"""Entries for aggregations: sums, extremes, products and attention, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import _native, reference

from fuzz.draw import Draw
from fuzz.entry import Entry, values

SLOPE = 0.25


def _table(draw: Draw, *shape: int, dtype: Any) -> np.ndarray:
    """Small whole numbers, of which sums are exact in any order."""
    return np.random.default_rng(draw.key()).integers(-8, 9, shape).astype(dtype)


def _edges(draw: Draw) -> tuple[list[Any], int, Any, Any]:
    """Rows of edges, how many there are on both sides, positions or none, and a dtype."""
    graph = draw.graph()
    positions = None
    if draw.chance(0.5):
        positions = np.random.default_rng(draw.key()).permutation(len(graph.indices)).astype(graph.indices.dtype)
    return [graph.indptr, graph.indices], graph.num_nodes, positions, draw.one_of(np.float32, np.float64)


def _rows_arguments(draw: Draw) -> list[Any]:
    """indptr, indices, x, weights, positions, threads."""
    edges, count, positions, dtype = _edges(draw)
    heads = draw.integer(1, 3)
    weights = _table(draw, len(edges[1]), heads, dtype=dtype) if draw.chance(0.5) else None
    return [*edges, _table(draw, count, heads * draw.one_of(1, 3, 8), dtype=dtype), weights, positions, draw.threads()]


def _places(indices: Any, positions: Any) -> np.ndarray:
    return np.arange(len(values(indices))) if positions is None else values(positions)


def _by_head(x: np.ndarray, weights: Any) -> np.ndarray:
    return x.reshape(len(x), 1 if weights is None else values(weights).shape[1], -1) if x.size else x[:, None]


# --- native: outputs are made here, as their shapes are not what is tested --------------------------------------------


def _spmm(indptr: Any, indices: Any, x: Any, weights: Any, positions: Any, threads: Any) -> Any:
    out = np.zeros((len(indptr) - 1, x.shape[1]), x.dtype)
    _native.spmm((indptr, indices, positions), x, out, weights, None, True, threads)
    return out


def _check_spmm(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, weights, positions, _ = arguments
    rows = _by_head(x, weights)
    weights = None if weights is None else values(weights)
    expected = reference.aggregate.spmm(
        values(indptr), values(indices), rows, weights, _places(indices, positions), None,
        np.zeros((len(answer), *rows.shape[1:]), x.dtype),
    )  # fmt: skip
    assert np.array_equal(values(answer).reshape(expected.shape), expected)


def _extreme(indptr: Any, indices: Any, x: Any, weights: Any, positions: Any, threads: Any) -> Any:
    out = np.zeros((len(indptr) - 1, x.shape[1]), x.dtype)
    winners = np.zeros(out.shape, np.int64)
    _native.spmm_extreme((indptr, indices, positions), x, out, winners, weights, True, True, True, threads)
    return out, winners


def _check_extreme(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, weights, positions, _ = arguments
    rows = _by_head(x, weights)
    weights = None if weights is None else values(weights)
    expected = reference.aggregate.spmm_extreme(
        values(indptr), values(indices), rows, weights, _places(indices, positions), True
    )
    for found, array in zip(answer, expected, strict=True):
        assert np.array_equal(values(found).reshape(array.shape), array)


def _winners(indptr: Any, indices: Any, x: Any, weights: Any, positions: Any, threads: Any) -> Any:
    """Of each column the edge at position 1 has won."""
    out = np.zeros((len(indptr) - 1, x.shape[1]), x.dtype)
    _native.spmm_winners((indptr, indices, positions), x, np.ones(x.shape, np.int64), out, weights, True, threads)
    return out


def _check_winners(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, weights, positions, _ = arguments
    rows = _by_head(x, weights)
    weights = None if weights is None else values(weights)
    expected = reference.aggregate.spmm_winners(
        values(indptr), values(indices), rows, np.ones(rows.shape, np.int64), weights, _places(indices, positions),
        np.zeros((len(answer), *rows.shape[1:]), x.dtype),
    )  # fmt: skip
    assert np.array_equal(answer.reshape(expected.shape), expected)


def _sddmm(indptr: Any, indices: Any, x: Any, positions: Any, threads: Any) -> Any:
    out = np.zeros((len(indices), 1), x.dtype)
    _native.sddmm((indptr, indices, positions), x, x, out, None, threads)
    return out


def _sddmm_arguments(draw: Draw) -> list[Any]:
    indptr, indices, x, _, positions, threads = _rows_arguments(draw)
    return [indptr, indices, x, positions, threads]


def _check_sddmm(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, positions, _ = arguments
    places = _places(indices, positions)
    if len(np.unique(places)) < len(places):
        return  # written twice
    expected = reference.aggregate.sddmm(values(indptr), values(indices), x[:, None], x[:, None], places, None)
    assert np.array_equal(values(answer).reshape(expected.shape), expected)


def _attention_arguments(draw: Draw) -> list[Any]:
    """indptr, indices, x, scores of both sides, of edges, weights, positions, key, threshold, ids, threads."""
    edges, count, positions, dtype = _edges(draw)
    heads = draw.integer(1, 5)
    scores = _table(draw, count, heads, dtype=dtype)
    by_edge = _table(draw, len(edges[1]), heads, dtype=dtype) if draw.chance(0.5) else None
    weights = np.abs(_table(draw, len(edges[1]), dtype=dtype)) if draw.chance(0.3) else None
    ids = draw.ids(len(edges[1]), 1 << 62) if draw.chance(0.5) else None
    x = _table(draw, count, heads * 2, dtype=dtype)
    threshold = draw.one_of(0, 0, 1 << 31)
    return [*edges, x, scores, by_edge, weights, positions, draw.key(), threshold, ids, draw.threads()]


def _attend(
    indptr: Any, indices: Any, x: Any, scores: Any, by_edge: Any, weights: Any, positions: Any, *rest: Any
) -> Any:
    key, threshold, ids, threads = rest
    out = np.zeros((len(indptr) - 1, x.shape[1]), x.dtype)
    largest, sums = (np.zeros((len(out), scores.shape[1]), x.dtype) for _ in range(2))
    given = (scores, scores, by_edge, weights, SLOPE, key, threshold, 2.0, ids)
    _native.attend((indptr, indices, positions), given, x, (out, largest, sums), True, True, threads)
    return out, largest, sums


def _expected_attention(arguments: list[Any]) -> tuple[np.ndarray, np.ndarray | None]:
    indptr, indices, _, scores, by_edge, weights, positions, key, threshold, ids, _ = arguments
    places = _places(indices, positions)
    found = reference.aggregate.attention(
        values(indptr), values(indices), scores.astype(float), scores.astype(float),
        None if by_edge is None else values(by_edge)[places].astype(float),
        None if weights is None else values(weights)[places].astype(float), SLOPE,
    )  # fmt: skip
    if not threshold:
        return found, None
    names = places if ids is None else values(ids)[places]
    mask = reference.dropout_mask(int(key), names, scores.shape[1], int(threshold))
    return found, mask * 2.0


def _check_attend(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, scores, *_ = arguments
    attention, kept = _expected_attention(arguments)
    rows = x.reshape(len(x), scores.shape[1], -1).astype(float) if x.size else np.zeros((len(x), scores.shape[1], 2))
    expected = reference.aggregate.attend(values(indptr), values(indices), rows, attention, kept)
    assert np.allclose(answer[0].reshape(expected.shape), expected, atol=1e-4)


def _attend_backward(*arguments: Any) -> Any:
    """The gradients of destinations and edges, of the sum of all columns."""
    indptr, indices, x, scores, by_edge, weights, positions, key, threshold, ids, threads = arguments
    out, largest, sums = _attend(*arguments)
    by_scores = np.zeros(largest.shape, x.dtype)
    other = np.zeros((len(indices), scores.shape[1]), x.dtype)
    given = (scores, scores, by_edge, weights, SLOPE, key, threshold, 2.0, ids)
    gradients = np.ones(out.shape, x.dtype)
    _native.attend_backward(
        (indptr, indices, positions), given, x, (out, largest, sums), gradients, by_scores, other, False, threads
    )
    return by_scores, other


def _check_attend_backward(arguments: list[Any], answer: Any) -> None:
    """Gradients of a destination's score are the sums of those of its edges."""
    by_scores, by_edge = answer
    indptr, indices, *_ = arguments
    places = _places(indices, arguments[6])
    if len(np.unique(places)) < len(places):
        return
    for row, (start, stop) in enumerate(zip(values(indptr)[:-1], values(indptr)[1:], strict=True)):
        assert np.allclose(by_edge[places[start:stop]].sum(0), by_scores[row], atol=1e-3)


# --- public -----------------------------------------------------------------------------------------------------------


def _transpose_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph(large=draw.chance(0.02))
    return [graph.indptr, graph.indices, graph.num_nodes, draw.threads()]


def _transpose(indptr: Any, indices: Any, num_src: Any, threads: Any) -> Any:
    return ops.transpose_csc(indptr, indices, num_src, num_threads=threads)


def _check_transpose(arguments: list[Any], answer: Any) -> None:
    indptr, indices, num_src, _ = arguments
    if len(values(indices)) < 1_000:
        expected = reference.aggregate.transpose_csc(values(indptr), values(indices), num_src)
        assert [part.tolist() for part in answer] == list(expected)


def _public_rows(draw: Draw) -> list[Any]:
    indptr, indices, x, weights, positions, threads = _rows_arguments(draw)
    rows = torch.from_numpy(_by_head(x, weights))
    return [indptr, indices, rows, None if weights is None else torch.from_numpy(weights), positions, threads]


def _public(call: Any) -> Any:
    def called(indptr: Any, indices: Any, x: Any, weight: Any, positions: Any, threads: Any) -> Any:
        return call(indptr, indices, x, weight=weight, positions=positions, num_threads=threads)

    return called


def _as_native(arguments: list[Any]) -> list[Any]:
    indptr, indices, x, weight, positions, threads = arguments
    table = weight if weight is None else values(weight).reshape(len(weight), weight.shape[1] if weight.ndim > 1 else 1)
    return [indptr, indices, values(x).reshape(len(x), -1) if x.numel() else values(x)[:, 0], table, positions, threads]


def _check_public_spmm(arguments: list[Any], answer: Any) -> None:
    _check_spmm(_as_native(arguments), values(answer))


def _check_public_extreme(arguments: list[Any], answer: Any) -> None:
    _check_extreme(_as_native(arguments), [values(part) for part in answer])


def _public_sddmm_arguments(draw: Draw) -> list[Any]:
    indptr, indices, x, positions, threads = _sddmm_arguments(draw)
    return [indptr, indices, torch.from_numpy(x), positions, threads]


def _public_sddmm(indptr: Any, indices: Any, x: Any, positions: Any, threads: Any) -> Any:
    return ops.sddmm(indptr, indices, x, x, positions=positions, num_threads=threads)


def _check_public_sddmm(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, positions, threads = arguments
    _check_sddmm([indptr, indices, values(x), positions, threads], answer)


def _grad_arguments(draw: Draw) -> list[Any]:
    indptr, indices, x, weight, _, threads = _public_rows(draw)
    rows = x.requires_grad_()
    return [
        torch.from_numpy(indptr),
        torch.from_numpy(indices),
        rows,
        draw.one_of("sum", "mean", "max"),
        weight,
        threads,
    ]


def _aggregate_with_grad(indptr: Any, indices: Any, x: Any, reduce: Any, weight: Any, threads: Any) -> Any:
    out = ops.aggregate_with_grad(indptr, indices, x, reduce=reduce, weight=weight, num_threads=threads)
    return out, torch.autograd.grad(out.sum(), x)[0] if x.numel() and len(out) else None


def _check_aggregate_with_grad(arguments: list[Any], answer: Any) -> None:
    _, _, x, reduce, *_ = arguments
    out, gradient = answer
    if gradient is not None and reduce == "sum":  # it is linear
        assert torch.allclose((gradient * x).sum(), out.sum(), atol=1e-2)


def _public_attention(draw: Draw) -> list[Any]:
    indptr, indices, x, scores, by_edge, weights, positions, key, threshold, ids, threads = _attention_arguments(draw)
    heads = scores.shape[1]
    rows = torch.from_numpy(x.reshape(len(x), heads, 2) if x.size else np.zeros((len(x), heads, 2), x.dtype))
    side = torch.from_numpy(scores)
    rest = (None if one is None else torch.from_numpy(one) for one in (by_edge, weights))
    dropout = ops.AttentionDropout(0.5, key, ids) if threshold else None
    return [indptr, indices, rows, ops.AttentionScores(side, side, *rest, SLOPE, dropout), positions, threads]


def _public_attend(indptr: Any, indices: Any, x: Any, scores: Any, positions: Any, threads: Any) -> Any:
    return ops.attend(indptr, indices, x, scores, positions=positions, num_threads=threads)


def _check_public_attend(arguments: list[Any], answer: Any) -> None:
    indptr, indices, x, scores, positions, threads = arguments
    dropout = scores.dropout
    key, ids = (0, None) if dropout is None else (dropout.key, dropout.edge_ids)
    parts = (None if one is None else values(one) for one in (scores.edge, scores.weight))
    _check_attend(
        [indptr, indices, values(x).reshape(len(x), -1) if x.numel() else values(x)[..., 0], values(scores.source),
         *parts, positions, key, 0 if dropout is None else 1 << 31, ids, threads],
        [values(part) for part in answer],
    )  # fmt: skip


def _attend_grad_arguments(draw: Draw) -> list[Any]:
    indptr, indices, x, scores, _, threads = _public_attention(draw)
    return [torch.from_numpy(indptr), torch.from_numpy(indices), x.requires_grad_(), scores, threads]


def _attend_with_grad(indptr: Any, indices: Any, x: Any, scores: Any, threads: Any) -> Any:
    out = ops.attend_with_grad(indptr, indices, x, scores, num_threads=threads)
    return out, torch.autograd.grad(out.sum(), x)[0] if x.numel() and len(out) else None


def _check_attend_with_grad(arguments: list[Any], answer: Any) -> None:
    out, gradient = answer
    if gradient is not None:  # it is linear in x
        assert torch.allclose((gradient * arguments[2]).sum(), out.sum(), atol=1e-2)


_TABLES = frozenset({2})
NATIVE_ENTRIES = {
    "spmm": Entry(_spmm, _rows_arguments, _check_spmm, _TABLES, aligned=True),
    "spmm_extreme": Entry(_extreme, _rows_arguments, _check_extreme, _TABLES, aligned=True),
    "spmm_winners": Entry(_winners, _rows_arguments, _check_winners, _TABLES, aligned=True),
    "sddmm": Entry(_sddmm, _sddmm_arguments, _check_sddmm, _TABLES, aligned=True),
    "attend": Entry(_attend, _attention_arguments, _check_attend, frozenset({2, 3}), aligned=True),
    "attend_backward": Entry(
        _attend_backward, _attention_arguments, _check_attend_backward, frozenset({2, 3}), aligned=True
    ),
}
PUBLIC_ENTRIES = {
    "transpose_csc": Entry(_transpose, _transpose_arguments, _check_transpose, _TABLES),
    "spmm": Entry(_public(ops.spmm), _public_rows, _check_public_spmm, _TABLES),
    "spmm_extreme": Entry(_public(ops.spmm_extreme), _public_rows, _check_public_extreme, _TABLES),
    "sddmm": Entry(_public_sddmm, _public_sddmm_arguments, _check_public_sddmm, _TABLES),
    "aggregate_with_grad": Entry(_aggregate_with_grad, _grad_arguments, _check_aggregate_with_grad, _TABLES),
    "attend": Entry(_public_attend, _public_attention, _check_public_attend, frozenset({2, 3})),
    "attend_with_grad": Entry(_attend_with_grad, _attend_grad_arguments, _check_attend_with_grad, frozenset({2, 3})),
}
