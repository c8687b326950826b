"""Entries for the public functions that look at whole layers, walk, and draw or add up subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace import ops

from fuzz.draw import MAX_EDGES, Draw, Graph
from fuzz.entry import REFUSALS, Entry, check_rows, values
from fuzz.native_laws import (
    check_edges,
    check_induced,
    check_labor,
    check_ladies,
    check_sums,
    check_visits,
    check_walks,
)
from fuzz.public import rounds

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def count(draw: Draw) -> Any:
    """A number of things to draw, rarely one that no memory can hold or that is none."""
    return draw.one_of(1 << 62, -1, 1.5, None, True) if draw.chance(0.05) else draw.integer(0, 40)


# --- layers -----------------------------------------------------------------------------------------------------------


def _labor(indptr: Any, indices: Any, frontier: Any, rule: Any, weights: Any, num_threads: Any) -> Any:
    return ops.labor_importance(indptr, indices, frontier, rule, weights=weights, num_threads=num_threads)


def _labor_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    rule = ops.LaborImportanceRule(draw.integer(-1, MAX_EDGES + 5), rounds(draw))
    return [graph.indptr, graph.indices, draw.ids(draw.integer(0, 8), graph.num_nodes), rule, weights, draw.threads()]


def _check_labor(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, _, weights, _ = arguments
    solved = (answer.candidates, answer.probabilities, answer.scales)
    check_labor((indptr, indices, frontier, weights), solved, answer.expected_sizes)


def _ladies(indptr: Any, indices: Any, frontier: Any, rule: Any, key: Any, weights: Any, num_threads: Any) -> Any:
    return ops.draw_ladies(indptr, indices, frontier, rule, key, weights=weights, num_threads=num_threads)


def _ladies_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    frontier = draw.ids(draw.integer(0, 8), graph.num_nodes)
    weights = draw.weights(graph.num_edges) if draw.chance(0.5) else None
    rule = ops.LadiesRule(draw.integer(-1, MAX_EDGES + 5), draw.chance(0.5))
    return [graph.indptr, graph.indices, frontier, rule, draw.key(), weights, draw.threads()]


def _check_ladies(arguments: list[Any], answer: Any) -> None:
    indptr, indices, frontier, rule, _, weights, _ = arguments
    drawn = (answer.candidates, answer.scores, answer.probabilities, answer.drawn)
    check_ladies((indptr, indices, frontier, weights), rule.size, rule.poisson, drawn)


# --- walks ------------------------------------------------------------------------------------------------------------


def _sums(indptr: Any, weights: Any, trust_weights: Any, num_threads: Any) -> ops.WeightSums:
    return ops.weight_sums(indptr, weights, trust_weights=trust_weights, num_threads=num_threads)


def _sums_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, draw.weights(graph.num_edges), draw.chance(0.5), draw.threads()]


def sums(draw: Draw, graph: Graph) -> Any:
    """Nothing, sums of weights, or something made by hand."""
    weights = draw.weights(graph.num_edges)
    if draw.chance(0.5):
        return None
    if draw.chance(0.1):
        return ops.WeightSums(weights, draw.one_of(draw.hostile(), draw.layout(weights, aligned=False)))
    try:
        return ops.weight_sums(graph.indptr, weights, trust_weights=True, num_threads=1)
    except REFUSALS:
        sums = np.cumsum(weights, dtype=np.float64)[: graph.num_edges // 4 + 1]
        return ops.WeightSums(weights, torch.from_numpy(sums))


def _walk(
    indptr: Any, indices: Any, starts: Any, length: Any, restart: Any, key: Any, ids: Any, weights: Any, threads: Any
) -> torch.Tensor:
    return ops.random_walk(
        indptr, indices, starts, length, restart=restart, key=key, ids=ids, weights=weights, num_threads=threads
    )


def _restart(draw: Draw) -> Any:
    return draw.one_of(1.0, -0.1, np.nan, "0.5", 1j) if draw.chance(0.05) else draw.one_of(0, 0.5, np.float32(0.9))


def _walk_arguments(draw: Draw) -> list[Any]:
    graph, number = draw.graph(), draw.integer(0, 8)
    length = draw.one_of(1 << 31, 1 << 62, -1, 1.5, None) if draw.chance(0.05) else draw.integer(0, 8)
    ids = np.array([draw.random.getrandbits(63) for _ in range(number)], np.int64)
    return [
        graph.indptr,
        graph.indices,
        draw.ids(number, graph.num_nodes),
        length,
        _restart(draw),
        draw.key(),
        draw.one_of(None, ids),
        sums(draw, graph),
        draw.threads(),
    ]


def _check_walk(arguments: list[Any], answer: Any) -> None:
    indptr, indices, starts, length = arguments[:4]
    check_walks(indptr, indices, starts, length, answer)


def _pinsage(*arguments: Any) -> ops.Visits:
    *graph, num_neighbors, num_walks, length, restart, key, weights, threads = arguments
    lengths = {"num_walks": num_walks, "walk_length": length}
    return ops.pinsage_neighbors(
        *graph, num_neighbors, **lengths, restart=restart, key=key, weights=weights, num_threads=threads
    )


def _pinsage_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [
        graph.indptr,
        graph.indices,
        draw.ids(draw.integer(0, 8), graph.num_nodes),
        draw.integer(0, 9),
        draw.integer(-1, 6),
        draw.integer(-1, 6),
        _restart(draw),
        draw.key(),
        sums(draw, graph),
        draw.threads(),
    ]


def _check_pinsage(arguments: list[Any], answer: Any) -> None:
    indptr, _, frontier, num_neighbors, num_walks, length = arguments[:6]
    visits = (answer.indptr, answer.neighbors, answer.counts)
    check_visits(len(values(indptr)) - 1, frontier, (num_neighbors, num_walks * length), visits)
    assert len(answer.importance()) == len(answer.counts)


# --- subgraphs --------------------------------------------------------------------------------------------------------


def _graph_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices]


def _check_node_law(arguments: list[Any], answer: Any) -> None:
    assert len(answer.probability) == len(answer.sums) == len(values(arguments[0])) - 1
    assert abs(float(answer.probability.sum()) - 1) < 1e-9


def _check_edge_law(arguments: list[Any], answer: Any) -> None:
    assert (np.diff(values(arguments[0]))[values(answer.destinations)] > 0).all()
    assert ((answer.probability >= 0) & (answer.probability <= 1 + 1e-9)).all()


def law(draw: Draw, graph: Graph, kinds: tuple[str, ...]) -> Any:
    """The law of the graph, or one made by hand of whatever."""
    kind = draw.one_of(*kinds)
    try:
        made = (
            ops.node_law(graph.indptr, graph.indices) if kind == "node" else ops.edge_law(graph.indptr, graph.indices)
        )
    except REFUSALS:
        made = ops.NodeLaw(*[torch.ones(graph.num_nodes, dtype=torch.float64)] * 2)
        if kind == "edge":
            made = ops.EdgeLaw(torch.arange(graph.num_nodes), made.probability)
    if draw.chance(0.15):
        array = made.sums if isinstance(made, ops.NodeLaw) else made.destinations
        other = draw.damaged(values(array), aligned=False)
        made = type(made)(*draw.one_of((other, made.probability), (array, other), (other, other)))
    return made


def _draw_nodes(law: Any, num_draws: Any, key: Any, num_threads: Any) -> torch.Tensor:
    return ops.draw_nodes(law, num_draws, key=key, num_threads=num_threads)


def _check_nodes(arguments: list[Any], answer: Any) -> None:
    assert len(answer) == arguments[1]
    assert ((answer >= 0) & (answer < len(values(arguments[0].sums)))).all()


def _draw_edges(indptr: Any, indices: Any, law: Any, num_draws: Any, key: Any, num_threads: Any) -> torch.Tensor:
    return ops.draw_edges(indptr, indices, law, num_draws, key=key, num_threads=num_threads)


def _draw_edges_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, law(draw, graph, ("edge",)), count(draw), draw.key(), draw.threads()]


def _check_draw_edges(arguments: list[Any], answer: Any) -> None:
    indptr, indices, given, num_draws = arguments[:4]
    check_edges(indptr, indices, given.destinations, num_draws, answer)


def _check_inclusion(arguments: list[Any], answer: Any) -> None:
    probability, num_draws = arguments
    assert torch.allclose(answer, 1 - (1 - probability) ** float(num_draws))


def _induced(indptr: Any, indices: Any, nodes: Any, num_threads: Any) -> ops.Subgraph:
    return ops.induced_subgraph(indptr, indices, nodes, num_threads=num_threads)


def _induced_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    return [graph.indptr, graph.indices, draw.unique_ids(graph.num_nodes), draw.threads()]


def _weights(subgraph: Any, law: Any, nodes: Any, degrees: Any, num_draws: Any, num_threads: Any) -> torch.Tensor:
    return ops.subgraph_weights(subgraph, law, nodes, degrees, num_draws, num_threads=num_threads)


def _weights_arguments(draw: Draw) -> list[Any]:
    graph = draw.graph()
    nodes = draw.unique_ids(graph.num_nodes)
    try:
        subgraph = ops.induced_subgraph(graph.indptr, graph.indices, nodes)
    except REFUSALS:
        subgraph = ops.Subgraph(*map(torch.from_numpy, (graph.indptr, graph.indices, graph.indices)))
    degrees = np.array([draw.integer(0, 60) for _ in nodes], np.int64)
    num_draws = draw.one_of((1 << 64) - 1, 1 << 64, -1, 1.5, None) if draw.chance(0.1) else draw.integer(0, 40)
    return [subgraph, law(draw, graph, ("node", "edge")), nodes, degrees, num_draws, draw.threads()]


def _check_weights(arguments: list[Any], answer: Any) -> None:
    subgraph, _, nodes = arguments[:3]
    check_rows(subgraph.indptr, len(values(nodes)), len(answer))
    assert len(answer) == len(subgraph.indices)


# --- rows -------------------------------------------------------------------------------------------------------------


def _tensor(draw: Draw, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Small whole numbers in memory of any kind: strided, misaligned, negated by a flag, expanded."""
    plain = torch.tensor([draw.integer(-9, 9) for _ in range(int(np.prod(shape)))], dtype=dtype).reshape(shape)
    match draw.integer(0, 6):
        case 0:
            return torch.stack([plain, plain], -1)[..., 0]
        case 1 if plain.numel():
            shifted = bytearray(plain.numel() * plain.element_size() + 1)
            return torch.frombuffer(shifted, dtype=dtype, offset=1).reshape(shape).copy_(plain)
        case 2 if dtype in (torch.float32, torch.float64):
            return torch.complex(plain, plain).conj().imag
        case 3:
            return plain[:1].expand(shape)
    return plain


def _scatter(out: Any, ids: Any, rows: Any, num_threads: Any) -> tuple[torch.Tensor, torch.Tensor]:
    before = out.clone() if isinstance(out, torch.Tensor) else None
    assert ops.scatter_add_rows(out, ids, rows, num_threads=num_threads) is out
    return before, out


def _scatter_arguments(draw: Draw) -> list[Any]:
    dtype, shape = draw.one_of(*FLOATS), [draw.integer(0, 5) for _ in range(draw.integer(0, 2))]
    num_rows, number = draw.integer(0, 9), draw.integer(0, 30)
    ids = draw.ids(number, num_rows, draw.one_of(np.int32, np.int64))
    return [_tensor(draw, [num_rows, *shape], dtype), ids, _tensor(draw, [len(ids), *shape], dtype), draw.threads()]


def _check_scatter(arguments: list[Any], answer: Any) -> None:
    before, out = answer
    places = torch.from_numpy(values(arguments[1]).astype(np.int64))
    expected = before.double().index_add(0, places, arguments[2].detach().double())
    # Sums of bfloat16 are rounded to 8 bits.
    assert torch.allclose(out.double(), expected, rtol=2.0**-7)


def _decode(source: Any, dtype: Any, ids: Any, scale: Any, zero_point: Any, num_threads: Any) -> torch.Tensor:
    return ops.decode_rows(source, dtype, ids=ids, scale=scale, zero_point=zero_point, num_threads=num_threads)


def _decode_arguments(draw: Draw) -> list[Any]:
    shape, num_rows = [draw.integer(0, 5) for _ in range(draw.integer(0, 2))], draw.integer(0, 9)
    source = _tensor(draw, [num_rows, *shape], draw.one_of(*FLOATS, torch.int8))
    ids = draw.ids(draw.integer(0, 30), num_rows, draw.one_of(np.int32, np.int64)) if draw.chance(0.5) else None
    scale, zero_point = (torch.full(draw.one_of([], shape), float(draw.integer(1, 9))) for _ in range(2))
    scaled = (scale, draw.one_of(zero_point, None)) if draw.chance(0.5) else (None, None)
    return [source, draw.one_of(*FLOATS), ids, *scaled, draw.threads()]


def _check_decode(arguments: list[Any], answer: Any) -> None:
    source, dtype, ids, scale, zero_point, _ = arguments
    if answer.is_meta:
        return
    rows = source if ids is None else source[torch.from_numpy(values(ids).astype(np.int64))]
    numbers = rows.detach().double()
    if scale is not None:
        numbers = (numbers - (0 if zero_point is None else zero_point.double())) * scale.double()
    assert torch.allclose(answer.double(), numbers, rtol=2.0**-7, equal_nan=True)
    assert answer.dtype == dtype


def _gather(source: Any, ids: Any, num_threads: Any) -> torch.Tensor:
    return ops.gather_rows_with_grad(source, ids, num_threads=num_threads)


def _gather_arguments(draw: Draw) -> list[Any]:
    dtype, shape = draw.one_of(*FLOATS), [draw.integer(0, 5) for _ in range(draw.integer(0, 2))]
    num_rows = draw.integer(0, 9)
    ids = torch.from_numpy(draw.ids(draw.integer(0, 30), num_rows, draw.one_of(np.int32, np.int64)))
    return [_tensor(draw, [num_rows, *shape], dtype).requires_grad_(draw.chance(0.7)), ids, draw.threads()]


def _check_gather(arguments: list[Any], answer: Any) -> None:
    source, ids, _ = arguments
    if answer.is_meta:
        return  # no rows at all: whoever gave source and ids on that device gets its shape alone
    places = torch.from_numpy(values(ids).astype(np.int64))
    assert torch.equal(answer.detach(), torch.as_tensor(source).detach()[places])
    if answer.requires_grad and answer.numel():
        answer.sum().backward()
        counts = torch.bincount(places, minlength=len(source)).to(source.dtype)
        assert torch.equal(source.grad.reshape(len(source), -1)[:, 0], counts)


ENTRIES = {
    "labor_importance": Entry(_labor, _labor_arguments, _check_labor),
    "draw_ladies": Entry(_ladies, _ladies_arguments, _check_ladies),
    "weight_sums": Entry(_sums, _sums_arguments, lambda given, answer: check_sums(given[0], given[1], answer.sums)),
    "random_walk": Entry(_walk, _walk_arguments, _check_walk, frozenset({3})),  # 2**31 - 1 steps are honest work
    "pinsage_neighbors": Entry(_pinsage, _pinsage_arguments, _check_pinsage, frozenset({4, 5})),
    "node_law": Entry(ops.node_law, _graph_arguments, _check_node_law),
    "edge_law": Entry(ops.edge_law, _graph_arguments, _check_edge_law),
    "draw_nodes": Entry(
        _draw_nodes,
        lambda draw: [law(draw, draw.graph(), ("node",)), count(draw), draw.key(), draw.threads()],
        _check_nodes,
        frozenset({1}),
    ),
    "draw_edges": Entry(_draw_edges, _draw_edges_arguments, _check_draw_edges, frozenset({3})),
    "inclusion_probability": Entry(
        ops.inclusion_probability,
        lambda draw: [
            torch.tensor([draw.random.random() for _ in range(draw.integer(0, 9))], dtype=torch.float64),
            draw.integer(0, 40),
        ],
        _check_inclusion,
    ),
    "induced_subgraph": Entry(
        _induced,
        _induced_arguments,
        lambda given, answer: check_induced(given, (answer.indptr, answer.indices, answer.positions)),
    ),
    "subgraph_weights": Entry(_weights, _weights_arguments, _check_weights),
    "scatter_add_rows": Entry(_scatter, _scatter_arguments, _check_scatter),
    "decode_rows": Entry(_decode, _decode_arguments, _check_decode),
    "gather_rows_with_grad": Entry(_gather, _gather_arguments, _check_gather),
}
