"""Entries for the public functions of headrace.ops: whatever comes, an answer or an error, never a stray read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops
from headrace.ops import reference

from fuzz.draw import MAX_EDGES, Draw
from fuzz.entry import Entry, check_compact, check_rows, values
from fuzz.native import (
    check_blocks,
    check_csc_answer,
    check_good_weights,
    check_hop,
    check_parallel,
    check_range,
    check_sound,
    edge_list_arguments,
)
from fuzz.native_rows import (
    check_dropout,
    check_group,
    check_hash,
    dropout_arguments,
    group_arguments,
    hash_arguments,
    owners_arguments,
)

DTYPES = ("?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", ">f4", "O", "M8[s]")


def rule(draw: Draw) -> ops.Rule:
    """Any rule, rarely of a fan-out that memory cannot hold."""
    fanout = 1 << 62 if draw.chance(0.05) else draw.integer(-1, MAX_EDGES + 5)
    kind = draw.one_of(ops.NeighborRule, ops.LatestRule, ops.LaborRule, ops.LadiesRule, ops.LaborImportanceRule)
    if kind is ops.LatestRule:
        return kind(fanout)
    return kind(fanout, rounds(draw) if kind is ops.LaborImportanceRule else draw.chance(0.5))


def rounds(draw: Draw) -> Any:
    """Rounds of importance; 2**62 of them would be honest work."""
    return draw.one_of("*", 1, 2, 3)


def _check_rule(arguments: list[Any], answer: Any) -> None:
    assert (answer.size if isinstance(answer, ops.LadiesRule) else answer.fanout) == arguments[0]


def _rule_entry(kind: Any) -> Entry:
    def arguments(draw: Draw) -> list[Any]:
        return [draw.integer(-2, 9), rounds(draw) if kind is ops.LaborImportanceRule else draw.chance(0.5)]

    return Entry(kind, arguments, _check_rule)


def _hop(indptr: Any, indices: Any, frontier: Any, one: Any, key: Any, weights: Any, num_threads: Any) -> ops.Hop:
    return ops.sample_hop(indptr, indices, frontier, one, key, weights=weights, num_threads=num_threads)


def _hop_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    frontier = draw.ids(draw.integer(0, 8), graph.num_nodes)
    return [graph.indptr, graph.indices, frontier, rule(draw), draw.key(), weights, draw.threads()]


def _check_hop(arguments: list[Any], hop: Any) -> None:
    indptr, indices, frontier, _, _, weights, _ = arguments
    check_hop(indptr, indices, frontier, weights, (hop.indptr, hop.neighbors, hop.positions, hop.weights))


def _sampler(*arguments: Any) -> ops.Sampled:
    """Construct and sample twice: what the two take are arguments 0 to 3 and the rest."""
    sampler = ops.BlockSampler(*arguments[:4])
    seeds, rules, keys, expand, edge_ids, num_threads = arguments[4:]
    for _ in range(2):
        sampled = sampler.sample(seeds, rules, keys, expand=expand, edge_ids=edge_ids, num_threads=num_threads)
    return sampled


def _sampler_arguments(draw: Draw) -> list[Any]:
    graph, hops = draw.graph(), draw.integer(0, 3)
    return [
        graph.indptr,
        graph.indices,
        draw.one_of(None, np.arange(graph.num_edges, dtype=draw.one_of(np.int32, np.int64))),
        draw.weights(graph.num_edges) if draw.chance(0.5) else None,
        draw.unique_ids(graph.num_nodes),
        [rule(draw) for _ in range(hops)],
        [draw.key() for _ in range(hops)],
        draw.one_of("all", "new"),
        draw.chance(0.8),
        draw.threads(),
    ]


def _check_sampler(arguments: list[Any], sampled: Any) -> None:
    check_blocks(
        values(arguments[0]), values(arguments[1]), values(arguments[4]), sampled.n_id, sampled.num_sampled_nodes
    )
    check_compact(arguments[4], sampled.n_id, sampled.n_id, np.arange(len(sampled.n_id)))
    assert sum(len(hop.indices) for hop in sampled.hops) == sum(sampled.num_sampled_edges)
    for hop in sampled.hops:
        check_rows(hop.indptr, hop.num_dst, len(hop.indices))
        assert hop.num_dst <= hop.num_src <= len(sampled.n_id)
        assert (values(hop.indices) < hop.num_src).all()


def _check_csc_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, graph.num_nodes, draw.threads()]


def _check_weights_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, draw.weights(graph.num_edges), draw.threads()]


def _gather_arguments(draw: Draw) -> list[Any]:
    """A table of any dtype, rank and strides, as an array or a tensor, into new or given memory."""
    shape = [draw.integer(0, 9) for _ in range(draw.integer(0, 3))]
    source: Any = np.ones([2 * size for size in shape]).cumsum().reshape([2 * size for size in shape])
    source = np.asarray(source).astype(draw.one_of(*DTYPES))
    steps = [draw.one_of(slice(size), slice(None, None, 2), slice(None, None, -2)) for size in shape]
    source = source[(*steps, ...)]
    if source.ndim > 1 and draw.chance(0.2):
        source = source.swapaxes(0, 1)
    if draw.chance(0.5) and source.dtype.kind not in "OM" and source.dtype.isnative:
        source = torch.from_numpy(source.copy())
        source = draw.one_of(lambda x: x, torch.conj, lambda x: x.real, lambda x: x.transpose(0, -1))(source)
    rows = source.shape[0] if source.ndim else 0
    ids = draw.ids(draw.integer(0, 20), rows, draw.one_of(np.int32, np.int64))
    out = None
    if draw.chance(0.3) and isinstance(source, torch.Tensor):
        out = torch.empty((len(ids), *source.shape[1:]), dtype=source.dtype)
    return [source, ids, out, draw.threads()]


def _check_gather(arguments: list[Any], answer: Any) -> None:
    source, ids, out, _ = arguments
    if answer.is_meta:
        return  # no rows at all: whoever gave source and ids on that device gets its shape alone
    table = source if isinstance(source, torch.Tensor) else torch.from_numpy(np.array(source, order="C"))
    expected = table.detach().resolve_conj().resolve_neg()[torch.from_numpy(values(ids).astype(np.int64))]
    assert torch.equal(answer.detach(), expected)
    assert out is None or answer is out


def _gather(source: Any, ids: Any, out: Any, num_threads: Any) -> torch.Tensor:
    return ops.gather_rows(source, ids, out=out, num_threads=num_threads)


def _check_unique(arguments: list[Any], answer: Any) -> None:
    unique, inverse = answer
    check_compact(np.empty(0, np.int64), arguments[0], unique, inverse)


def _range_arguments(draw: Draw) -> list[Any]:
    num_items = draw.one_of(draw.integer(0, 50), draw.integer(0, 1 << 62))
    start = draw.integer(0, num_items)
    return [num_items, start, min(num_items, start + draw.integer(0, 20)), draw.key()]


def _check_positions(arguments: list[Any], answer: Any) -> None:
    assert np.array_equal(answer, reference.positions_in_parts(values(arguments[0])))


def _reorder_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    order = np.array(draw.random.sample(range(graph.num_nodes), graph.num_nodes), draw.one_of(np.int32, np.int64))
    if len(order) and draw.chance(0.1):
        order[draw.random.randrange(len(order))] = draw.one_of(-1, graph.num_nodes, 0)
    return [graph.indptr, graph.indices, order, draw.threads()]


def _check_reorder(arguments: list[Any], answer: ops.Csc) -> None:
    indptr, indices, edge_ids = reference.reorder.reorder_csc(*map(values, arguments[:3]))
    assert np.array_equal(answer.indptr, indptr)
    assert np.array_equal(answer.indices, indices)
    assert np.array_equal(edge_ids, np.arange(len(edge_ids)) if answer.edge_ids is None else answer.edge_ids)


ENTRIES = {
    "NeighborRule": _rule_entry(ops.NeighborRule),
    "LatestRule": Entry(ops.LatestRule, lambda draw: [draw.integer(-2, 9)], _check_rule),
    "LaborRule": _rule_entry(ops.LaborRule),
    "LaborImportanceRule": _rule_entry(ops.LaborImportanceRule),
    "LadiesRule": _rule_entry(ops.LadiesRule),
    "BlockSampler": Entry(_sampler, _sampler_arguments, _check_sampler),
    "reorder_csc": Entry(
        lambda indptr, indices, order, num_threads: ops.reorder_csc(indptr, indices, order, num_threads=num_threads),
        _reorder_arguments,
        _check_reorder,
    ),
    "check_csc": Entry(
        lambda indptr, indices, num_nodes, num_threads: ops.check_csc(
            indptr, indices, num_nodes, num_threads=num_threads
        ),
        _check_csc_arguments,
        check_sound,
    ),
    "has_parallel_edges": Entry(
        lambda indptr, indices, num_threads: ops.has_parallel_edges(indptr, indices, num_threads=num_threads),
        lambda draw: [(graph := draw.graph()).indptr, graph.indices, draw.threads()],
        check_parallel,
    ),
    "check_weights": Entry(
        lambda indptr, weights, num_threads: ops.check_weights(indptr, weights, num_threads=num_threads),
        _check_weights_arguments,
        check_good_weights,
    ),
    "compact": Entry(
        ops.compact,
        lambda draw: [
            draw.unique_ids(40),
            draw.ids(draw.integer(0, MAX_EDGES), 40, draw.one_of(np.int32, np.int64)),
        ],
        lambda given, answer: check_compact(*given, answer.ids, answer.indices),
    ),
    "coo_to_csc": Entry(
        lambda src, dst, num_nodes, num_threads: ops.coo_to_csc(src, dst, num_nodes, num_threads=num_threads),
        edge_list_arguments,
        lambda given, answer: check_csc_answer(given, (answer.indptr, answer.indices, answer.edge_ids)),
        frozenset({2, 3}),  # hundreds of threads that read all edges each are honest work
    ),
    "trim_pool": Entry(ops.trim_pool, lambda draw: [], lambda given, answer: None),
    "use_huge_pages": Entry(
        ops.use_huge_pages, lambda draw: [np.zeros(draw.integer(0, 100), np.uint8)], lambda given, answer: None
    ),
    "hash_owners": Entry(ops.hash_owners, hash_arguments, check_hash),
    "group_by_owner": Entry(
        lambda ids, owners, num_parts, first: ops.group_by_owner(ids, owners, num_parts, first=first),
        group_arguments,
        lambda given, answer: check_group(given, (answer.ids, answer.places, answer.counts)),
    ),
    "positions_in_parts": Entry(ops.positions_in_parts, owners_arguments, _check_positions),
    "dropout_mask": Entry(
        lambda key, ids, width, probability, num_threads: ops.dropout_mask(
            key, ids, width, probability, num_threads=num_threads
        ),
        lambda draw: [*dropout_arguments(draw)[:3], draw.integer(0, 8) / 8, draw.threads()],
        lambda given, answer: check_dropout([*given[:3], round(given[3] * 2**32), 1], answer),
        frozenset({2}),  # a width of billions is honest work
    ),
    "gather_rows": Entry(_gather, _gather_arguments, _check_gather),
    "sample_hop": Entry(_hop, _hop_arguments, _check_hop),
    "shuffled_range": Entry(
        ops.shuffled_range,
        _range_arguments,
        check_range,
        frozenset({1, 2}),  # 2**32 items are honest work
    ),
    "BlendedKey": Entry(
        ops.BlendedKey,
        lambda draw: [draw.key(), draw.key(), draw.integer(-1, 5), draw.integer(3, 9)],
        lambda given, answer: None,
    ),
    "dependent_key": Entry(
        ops.dependent_key,
        lambda draw: [
            *(draw.random.getrandbits(bits) for bits in (64, 32, 64, 16)),
            draw.one_of(float("inf"), draw.integer(0, 9)),
        ],
        lambda given, answer: None,
    ),
    "stream_key": Entry(
        ops.stream_key,
        lambda draw: [draw.random.getrandbits(bits) for bits in (64, 32, 64, 16, 16)],
        lambda given, answer: None,
    ),
    "unique_and_inverse": Entry(
        ops.unique_and_inverse, lambda draw: [draw.ids(draw.integer(0, MAX_EDGES), 40)], _check_unique
    ),
}
