"""Layer-wise rules for a frontier that was cut in parts: together the parts do, bit for bit, what the whole does."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from layer_parts import PartReducer, run_parts

from headrace.ops import (
    InputError,
    LaborImportanceRule,
    LadiesRule,
    NeighborRule,
    draw_ladies,
    labor_importance,
    reference,
    sample_hop,
)

from layers import layer, weights_of
from strategies import csc_graphs, edge_weights, keys, labor_importance_rules, nodes_of, thread_counts

LADIES_RULES = st.builds(LadiesRule, st.integers(-1, 30), st.booleans())
LAYER_RULES = st.one_of(labor_importance_rules(st.integers(-1, 8)), LADIES_RULES)


@st.composite
def cut_frontiers(draw, graph):
    """A frontier in one to four parts, some of them empty; a node may be listed twice."""
    frontier = draw(nodes_of(graph, unique=False))
    cuts = sorted(draw(st.lists(st.integers(0, len(frontier)), max_size=3), label="cuts"))
    return frontier, list(torch.tensor_split(frontier, cuts))


def by_candidate(candidates, *columns):
    return {t: row for t, *row in zip(candidates.tolist(), *(column.tolist() for column in columns), strict=True)}


# --- parts are the whole ----------------------------------------------------------------------------------------------


@given(csc_graphs(), LAYER_RULES, keys, thread_counts, st.data())
def test_parts_pick_what_the_whole_picks(graph, rule, key, num_threads, data):
    frontier, parts = data.draw(cut_frontiers(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))

    def hop_of(part, reducer=None):
        return sample_hop(
            graph.indptr, graph.indices, part, rule, key, weights=weights, num_threads=num_threads, reducer=reducer
        )

    whole = hop_of(frontier)
    hops, calls = run_parts(parts, hop_of)
    assert torch.equal(torch.cat([hop.indptr.diff() for hop in hops]), whole.indptr.diff())
    for name in ("neighbors", "positions", "weights"):
        assert torch.equal(torch.cat([getattr(hop, name) for hop in hops]), getattr(whole, name))
    assert all(one == calls[0] for one in calls)


@given(csc_graphs(), labor_importance_rules(st.integers(-1, 8)), st.data())
def test_parts_solve_what_the_whole_solves(graph, rule, data):
    """Also how much each round gains, on which LABOR-* decides."""
    frontier, parts = data.draw(cut_frontiers(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))

    def solution_of(part, reducer=None):
        return labor_importance(graph.indptr, graph.indices, part, rule, weights=weights, reducer=reducer)

    whole = solution_of(frontier)
    solutions, _ = run_parts(parts, solution_of)
    assert torch.cat([one.scales for one in solutions]).tolist() == whole.scales.tolist()
    expected, got = by_candidate(whole.candidates, whole.probabilities), {}
    for one in solutions:
        assert one.expected_sizes == whole.expected_sizes
        found = by_candidate(one.candidates, one.probabilities)
        assert found.items() <= expected.items()
        got.update(found)
    assert got == expected


@given(csc_graphs(), LADIES_RULES, keys, st.data())
def test_parts_draw_what_the_whole_draws(graph, rule, key, data):
    frontier, parts = data.draw(cut_frontiers(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))

    def draw_of(part, reducer=None):
        return draw_ladies(graph.indptr, graph.indices, part, rule, key, weights=weights, reducer=reducer)

    whole = draw_of(frontier)
    draws, _ = run_parts(parts, draw_of)
    expected, got = by_candidate(whole.candidates, whole.scores, whole.probabilities, whole.drawn), {}
    for one in draws:
        found = by_candidate(one.candidates, one.scores, one.probabilities, one.drawn)
        assert all(expected[t] == row for t, row in found.items())
        got.update(found)
    assert got == expected


@given(csc_graphs(), LAYER_RULES, keys, st.data())
def test_the_order_of_the_frontier_does_not_matter(graph, rule, key, data):
    """What a destination gets depends on which others there are, not on where they stand."""
    frontier = data.draw(nodes_of(graph))
    order = torch.tensor(data.draw(st.permutations(range(len(frontier)))), dtype=torch.int64)
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    hops = [
        sample_hop(graph.indptr, graph.indices, nodes, rule, key, weights=weights)
        for nodes in (frontier, frontier[order])
    ]
    rows = []
    for hop in hops:
        sizes = hop.indptr.diff().tolist()
        edges = zip(hop.positions.split(sizes), weights_of(hop).split(sizes), strict=True)
        rows.append([(positions.tolist(), values.tolist()) for positions, values in edges])
    assert [rows[0][i] for i in order.tolist()] == rows[1]


@given(st.lists(st.floats(0, 1), max_size=300), st.randoms())
def test_sums_have_no_order(terms, random):
    """The same bits in any order, and close to the sums."""
    shuffled = random.sample(terms, len(terms))
    for fixed, power, slack in ((reference.layer.fixed, 1, 2.0**-53), (reference.layer.fixed_square, 2, 2.0**-61)):
        total = reference.layer.value_of(sum(map(fixed, terms)))
        assert reference.layer.value_of(sum(map(fixed, shuffled))) == total
        exact = float(np.sum(np.array(terms, np.longdouble) ** power))
        assert total == pytest.approx(exact, rel=1e-15, abs=len(terms) * slack)


@pytest.mark.parametrize("number", [1.0, 0.5, 1 / 3, 1e-3, 2.0**-20 / 3, 2.0**-47])
def test_squares_are_precise(number):
    assert reference.layer.value_of(reference.layer.fixed_square(number)) == pytest.approx(number**2, rel=2.0**-14)
    if number > 1e-4:
        assert reference.layer.value_of(reference.layer.fixed_square(number)) == pytest.approx(number**2, rel=2.0**-46)
    assert reference.layer.fixed_square(number / 2.0**60) == 2


# --- what the parts say to each other ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (LaborImportanceRule(5, 1), ["begin", "largest"]),
        (LaborImportanceRule(5, 3), ["begin", "largest", "largest", "largest"]),
        (LadiesRule(10), ["begin", "counted", "total", "sums", "gather"]),
        (LadiesRule(-1), ["begin", "counted", "total", "sums"]),
    ],
    ids=str,
)
def test_calls(rule, expected):
    """The same for a part without candidates."""
    one = layer(weighted=False)
    parts = [one.frontier[:5], one.frontier[5:], one.frontier[:0]]
    _, calls = run_parts(
        parts, lambda part, reducer: sample_hop(one.indptr, one.indices, part, rule, 3, reducer=reducer)
    )
    assert calls == [expected] * 3


def test_calls_of_labor_star_and_pladies_end_when_they_have_converged():
    one = layer(weighted=True)
    parts = [one.frontier[::2], one.frontier[1::2]]
    rule = LaborImportanceRule(5)
    rounds = len(labor_importance(one.indptr, one.indices, one.frontier, rule).expected_sizes)
    _, calls = run_parts(
        parts, lambda part, reducer: sample_hop(one.indptr, one.indices, part, rule, 3, reducer=reducer)
    )
    assert rounds > 3
    assert calls == [["begin", "counted", *["largest", "total"] * rounds]] * 2
    poisson = LadiesRule(40, poisson=True)
    _, calls = run_parts(
        parts, lambda part, reducer: sample_hop(one.indptr, one.indices, part, poisson, 3, reducer=reducer)
    )
    assert calls[0] == calls[1]
    assert calls[0][:4] == ["begin", "counted", "total", "sums"]
    assert 2 <= calls[0].count("total") - 1 <= 10


# --- reducers that fail -----------------------------------------------------------------------------------------------


class Broken(PartReducer):
    """A part alone whose method `broken` raises, or returns `answer`."""

    def __init__(self, broken: str, answer: Any = None, error: Exception | None = None) -> None:
        super().__init__(0, threading.Barrier(1), [None])

        def instead(*arguments: Any) -> Any:
            if error is not None:
                raise error
            return answer

        setattr(self, broken, instead)


RULE_OF = {
    "begin": LaborImportanceRule(5, 1),
    "counted": LaborImportanceRule(5),
    "largest": LaborImportanceRule(5, 1),
    "total": LaborImportanceRule(5),
    "sums": LadiesRule(10),
    "gather": LadiesRule(10),
}


def hop_with(reducer: Any, rule: Any) -> Any:
    one = layer(weighted=False)
    return sample_hop(one.indptr, one.indices, one.frontier, rule, 3, num_threads=2, reducer=reducer)


@pytest.mark.parametrize("method", RULE_OF)
@pytest.mark.parametrize("error", [ConnectionError("the other part is gone"), KeyError(3)], ids=["connection", "key"])
def test_what_a_method_raises_is_raised_by_the_hop(method, error):
    with pytest.raises(type(error)) as raised:
        hop_with(Broken(method, error=error), RULE_OF[method])
    assert raised.value is error
    hop_with(None, RULE_OF[method])  # nothing is left behind


NUM_CANDIDATES = len(layer(weighted=False).indices.unique())


@pytest.mark.parametrize(
    ("method", "answers"),
    {
        "counted": [None, np.ones(3, bool), np.ones(NUM_CANDIDATES, np.int8)],
        "largest": [
            None,
            np.ones(3),
            np.ones(NUM_CANDIDATES, np.float32),
            [1.0] * NUM_CANDIDATES,
            np.ones((NUM_CANDIDATES, 1)),
            np.ones(2 * NUM_CANDIDATES)[::2],
        ],
        "sums": [
            None,
            np.ones(NUM_CANDIDATES, np.int64),
            np.ones((NUM_CANDIDATES, 2), np.int64),
            np.ones((3, NUM_CANDIDATES), np.int64),
        ],
        "total": [None, 3, np.ones(3, np.int64), np.ones(4)],
        "gather": [None, np.ones(2), np.ones((3, 2), np.int64)],
    }.items(),
)
def test_wrong_answers_are_refused(method, answers):
    for answer in answers:
        with pytest.raises(InputError, match=rf"reducer\.{method} to return a contiguous NumPy array"):
            hop_with(Broken(method, answer), RULE_OF[method])


def test_less_than_all_parts_gave_is_refused():
    with pytest.raises(InputError, match=r"reducer\.gather returned less"):
        hop_with(Broken("gather", np.zeros(4, np.int64)), LadiesRule(10))


def test_what_is_no_reducer_is_refused():
    for call in (
        lambda: hop_with(3, LaborImportanceRule(5)),
        lambda: labor_importance(
            torch.tensor([0]), *[torch.tensor([], dtype=torch.int64)] * 2, LaborImportanceRule(5), reducer=object()
        ),
        lambda: draw_ladies(
            torch.tensor([0]), *[torch.tensor([], dtype=torch.int64)] * 2, LadiesRule(5), 0, reducer=object()
        ),
    ):
        with pytest.raises(InputError, match=r"reducer to be a LayerReducer, but \w+ has no begin, counted"):
            call()
    with pytest.raises(InputError, match="picks destination by destination, so parts of a frontier need no reducer"):
        hop_with(Broken("begin"), NeighborRule(3))
