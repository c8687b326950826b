"""Negative destinations: whose they are, their law, and that no edge is among them. Peers.md, A 5.17."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import InputError, coo_to_csc, draw_negatives, reference
from headrace.ops.sampling.negatives import joined_with_all, joined_with_all_before

from strategies import csc_graphs, keys, thread_counts

pytestmark = pytest.mark.twins

KINDS = st.sampled_from(["uniform", "degree", "weights"])


def has_negative(graph, nodes, weights, source):
    """Whether some node of positive weight has no edge from a source."""
    rows = [graph.indices[graph.indptr[v] : graph.indptr[v + 1]].tolist() for v in nodes]
    return any(weight > 0 and source not in row for weight, row in zip(weights, rows, strict=True))


@given(csc_graphs(min_nodes=1, max_nodes=12), keys, KINDS, st.booleans(), thread_counts, st.data())
def test_equals_the_reference(graph, key, kind, rejects, num_threads, data):
    first = data.draw(st.integers(0, graph.num_nodes - 1))
    nodes = range(first, data.draw(st.integers(first + 1, graph.num_nodes)))
    degrees = graph.indptr.diff().numpy()[first : nodes.stop]
    whole_numbers = st.lists(st.integers(0, 3), min_size=len(nodes), max_size=len(nodes))
    weights = np.array(data.draw(whole_numbers)) if kind == "weights" else degrees if kind == "degree" else degrees + 1
    if weights.sum() == 0:
        return
    counts = np.array(data.draw(st.lists(st.integers(0, 4), max_size=4)), np.int64)
    node = st.integers(0, graph.num_nodes - 1)
    sources = np.array(data.draw(st.lists(node, min_size=len(counts), max_size=len(counts))), np.int64)
    more = {"reject": sources if rejects else None, "first_pair": data.draw(st.integers(0, 2**40)), "key": key}
    sums = {"uniform": None, "degree": "degree", "weights": np.cumsum(weights, dtype=np.float64)}[kind]
    impossible = [
        i for i, source in enumerate(sources) if counts[i] and not has_negative(graph, nodes, weights, source)
    ]
    arguments = {"nodes": (first, nodes.stop), "weight": sums, "num_threads": num_threads, **more}
    if rejects and impossible:
        with pytest.raises(InputError, match=f"pair {more['first_pair'] + impossible[0]} has no negative"):
            draw_negatives(graph.indptr, graph.indices, counts, **arguments)
        return
    drawn = draw_negatives(graph.indptr, graph.indices, counts, **arguments)
    of_reference = {"uniform": None, "degree": "degree", "weights": weights.astype(np.float64)}[kind]
    arrays = graph.indptr.numpy(), graph.indices.numpy(), counts
    assert drawn.tolist() == reference.links.draw_negatives(*arrays, nodes=nodes, weight=of_reference, **more)
    if rejects:
        edges = set(
            zip(graph.indices.tolist(), np.repeat(np.arange(graph.num_nodes), graph.indptr.diff()), strict=True)
        )
        assert not edges & set(zip(np.repeat(sources, counts).tolist(), drawn.tolist(), strict=True))


@given(csc_graphs(min_nodes=2, max_nodes=12), keys, st.booleans(), st.booleans(), thread_counts, st.data())
def test_of_a_prefix_equals_the_reference(graph, key, weighted, rejects, num_threads, data):
    """No node behind the prefix is drawn, and of those in it each that may be."""
    size = graph.num_nodes - 1
    nodes = range(1, graph.num_nodes)
    order = np.array(data.draw(st.permutations(nodes)), np.int64)
    weights = np.array(data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size)), np.float64)
    prefix = np.array(data.draw(st.lists(st.integers(0, size), min_size=1, max_size=4)), np.int64)
    sources = np.array([data.draw(st.integers(0, graph.num_nodes - 1)) for _ in prefix], np.int64)
    counts = np.full(len(prefix), 5)
    more = {"reject": sources if rejects else None, "key": key, "order": order, "prefix": prefix}
    possible = [
        has_negative(graph, order[:length].tolist(), np.ones(length), source if rejects else None)
        for source, length in zip(sources, prefix, strict=True)
    ]
    arguments = {"nodes": (1, graph.num_nodes), "weight": weights.cumsum() if weighted else None, **more}
    if not all(possible):
        with pytest.raises(InputError, match=f"pair {possible.index(False)} has no negative"):
            draw_negatives(graph.indptr, graph.indices, counts, num_threads=num_threads, **arguments)
        return
    drawn = draw_negatives(graph.indptr, graph.indices, counts, num_threads=num_threads, **arguments)
    arrays = graph.indptr.numpy(), graph.indices.numpy(), counts
    expected = reference.links.draw_negatives(*arrays, nodes=nodes, weight=weights if weighted else None, **more)
    assert drawn.tolist() == expected
    assert all(node in order[:length] for node, length in zip(drawn.tolist(), prefix.repeat(5), strict=True))


@given(csc_graphs(min_nodes=2, max_nodes=12), keys, st.booleans(), thread_counts, st.data())
def test_of_an_order_with_repeats_equals_the_reference(graph, key, rejects, num_threads, data):
    """Such as ends of edges by time, and longer than there are nodes: a node is drawn as often as it is there."""
    order = np.array(data.draw(st.lists(st.integers(1, graph.num_nodes - 1), min_size=1, max_size=30)), np.int64)
    prefix = np.array(data.draw(st.lists(st.integers(0, len(order)), min_size=1, max_size=4)), np.int64)
    sources = np.array([data.draw(st.integers(0, graph.num_nodes - 1)) for _ in prefix], np.int64)
    counts = np.full(len(prefix), 5)
    more = {"reject": sources if rejects else None, "key": key, "order": order, "prefix": prefix}
    possible = [
        has_negative(graph, order[:length].tolist(), np.ones(length), source if rejects else None)
        for source, length in zip(sources, prefix, strict=True)
    ]
    arguments = {"nodes": (1, graph.num_nodes), "num_threads": num_threads, **more}
    if not all(possible):
        with pytest.raises(InputError, match=f"pair {possible.index(False)} has no negative"):
            draw_negatives(graph.indptr, graph.indices, counts, **arguments)
        return
    drawn = draw_negatives(graph.indptr, graph.indices, counts, **arguments)
    arrays = graph.indptr.numpy(), graph.indices.numpy(), counts
    assert drawn.tolist() == reference.links.draw_negatives(*arrays, nodes=range(1, graph.num_nodes), **more)


def test_prefixes_and_orders_that_are_none():
    indptr, indices = graph_of([0, 1], [1, 2], 4)
    counts = np.array([1])
    for prefix in (-1, 5):
        with pytest.raises(InputError, match=f"expected prefixes of 0 to 4 nodes, got {prefix}"):
            draw_negatives(indptr, indices, counts, key=1, prefix=np.array([prefix]))
    with pytest.raises(InputError, match="expected an order of nodes 0 to 3, got 4"):
        draw_negatives(indptr, indices, counts, key=1, order=np.full(4, 4))
    with pytest.raises(InputError, match="in their own order to draw by degree"):
        draw_negatives(indptr, indices, counts, key=1, weight="degree", prefix=np.array([2]))
    with pytest.raises(InputError, match=r"order to have one entry per node \(4\), got 5"):
        draw_negatives(indptr, indices, counts, key=1, weight=np.arange(4.0), order=np.zeros(5, np.int64))
    with pytest.raises(InputError, match="expected prefixes of 0 to 6 nodes, got 7"):
        draw_negatives(indptr, indices, counts, key=1, order=np.zeros(6, np.int64), prefix=np.array([7]))


def graph_of(src, dst, num_nodes):
    csc = coo_to_csc(np.array(src), np.array(dst), num_nodes)
    return csc.indptr, csc.indices


def expected_counts(weights, reject, total):
    weights = np.where(reject, 0, weights).astype(float)
    return total * weights / weights.sum()


@pytest.mark.law
@pytest.mark.parametrize("kind", ["uniform", "degree", "weights"])
@pytest.mark.parametrize("joined", [0, 3, 9], ids=lambda n: f"{n} of 10")
def test_law(kind, joined):
    """Of 10 nodes the first few have an edge from node 0: with 9 of them nearly all draws end in the list."""
    src, dst = [0] * joined + [11] * 35, [*range(joined), *[v for v in range(10) for _ in range(2 if v < 5 else 5)]]
    indptr, indices = graph_of(src, dst, 12)
    degrees = indptr.diff()[:10].numpy()
    weights = {"uniform": np.ones(10), "degree": degrees, "weights": np.arange(10.0)}[kind]
    given_one = {"uniform": None, "degree": "degree", "weights": np.cumsum(weights)}[kind]
    total, counts = 20_000, np.full(200, 100)
    more = {"nodes": (0, 10), "weight": given_one, "reject": np.zeros(200, np.int64)}
    drawn = draw_negatives(indptr, indices, counts, key=3, **more)
    seen = np.bincount(drawn, minlength=12)
    expected = expected_counts(weights, np.arange(10) < joined, total)
    assert seen[10:].sum() == 0
    assert seen[:10][expected == 0].sum() == 0
    possible = expected > 0
    chi = ((seen[:10][possible] - expected[possible]) ** 2 / expected[possible]).sum()
    assert chi < 27.9  # of at most 9 degrees of freedom, 1 in 1,000


def test_a_pair_draws_the_same_wherever_it_is_drawn():
    """Shares of a batch, from their place in it on, are those of the whole."""
    indptr, indices = graph_of([0, 1], [1, 2], 50)
    counts = np.array([3, 0, 2, 5, 1])
    whole = draw_negatives(indptr, indices, counts, key=9)
    first = draw_negatives(indptr, indices, counts[:2], key=9)
    rest = draw_negatives(indptr, indices, counts[2:], key=9, first_pair=2)
    assert torch.equal(whole, torch.cat([first, rest]))
    assert draw_negatives(indptr, indices, counts + 1, key=9)[:3].tolist() == whole[:3].tolist()


@pytest.mark.parametrize("kind", ["uniform", "degree", "weights"])
def test_the_one_node_that_is_left_is_always_found(kind):
    """Sources 0, 1 and 2 have edges to all of 400 nodes but one, another one for each; most draws end in the list."""
    src = np.repeat(np.arange(3), 400)
    dst = np.tile(np.arange(400), 3)
    kept = (src - dst) % 400 != 100  # no edges 0 -> 300, 1 -> 301, 2 -> 302
    indptr, indices = graph_of(src[kept], dst[kept], 400)
    given_one = {"uniform": None, "degree": "degree", "weights": np.arange(1.0, 401.0).cumsum()}[kind]
    sources, counts = np.array([0, 2, 1, 0]), np.full(4, 20)
    drawn = draw_negatives(indptr, indices, counts, key=8, weight=given_one, reject=sources)
    assert drawn.tolist() == np.repeat(sources + 300, 20).tolist()


def test_a_list_is_made_anew_for_another_prefix():
    """Source 0 has edges to all of 400 nodes but 300 and 301; the first pair may not have the latter."""
    indptr, indices = graph_of(np.zeros(400, int), np.r_[:300, 302:400, 5, 6], 400)
    counts, prefix = np.full(2, 400), np.array([301, 302])
    drawn = draw_negatives(indptr, indices, counts, key=8, reject=np.zeros(2, np.int64), prefix=prefix)
    assert set(drawn[:400].tolist()) == {300}
    # A third of the draws succeed without a list; of the list of the first pair all others would be 300.
    assert np.bincount(drawn[400:])[300:].tolist() == pytest.approx([200, 200], abs=50)


def test_joined_with_all():
    indptr, indices = graph_of([0, 0, 0, 0, 1, 1, 1, 1], [0, 1, 2, 3, 0, 1, 1, 2], 4)
    sources = np.array([3, 2, 1, 0])
    assert joined_with_all(indptr, indices, sources) == 0
    assert joined_with_all(indptr, indices, sources[:3]) is None
    assert joined_with_all(indptr, indices, sources[:3], nodes=(0, 3)) == 1
    assert joined_with_all(indptr, indices, sources[:3], weights=np.array([1.0, 1, 1, 0])) == 1


@given(csc_graphs(max_nodes=8, min_nodes=1, max_edges=40), st.booleans(), st.booleans(), st.data())
def test_joined_with_all_before_looks_at_each_pair(graph, weighted, repeats, data):
    """Node by node of each prefix, also where a node stands in the order again, as the ends of edges do."""
    first = data.draw(st.integers(0, graph.num_nodes - 1))
    nodes = range(first, data.draw(st.integers(first + 1, graph.num_nodes)))
    order = data.draw(st.permutations(nodes))
    if repeats:
        order = data.draw(st.lists(st.sampled_from(nodes), max_size=12))
    weights = data.draw(st.lists(st.integers(0, 2), min_size=len(nodes), max_size=len(nodes))) if weighted else None
    prefix = data.draw(st.lists(st.integers(0, len(order)), max_size=6))
    sources = [data.draw(st.integers(0, graph.num_nodes - 1)) for _ in prefix]

    def possible(source, length):
        return has_negative(
            graph, order[:length], [1 if weights is None else weights[v - first] for v in order[:length]], source
        )

    expected = [i for i, pair in enumerate(zip(sources, prefix, strict=True)) if not possible(*pair)]
    found = joined_with_all_before(
        graph.indptr,
        graph.indices,
        np.array(sources, np.int64),
        np.array(order, np.int64),
        np.array(prefix, np.int64),
        nodes=(first, nodes.stop),
        weights=None if weights is None else np.array(weights, np.float64),
    )
    assert found == (expected[0] if expected else None)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"nodes": (2, 2)}, InputError, "expected nodes to draw from"),
        ({"nodes": (0, 4)}, InputError, "expected nodes to draw from"),
        ({"weight": "out"}, InputError, 'weight to be "degree"'),
        ({"weight": np.zeros(3)}, InputError, "expected some weight above 0"),
        ({"weight": np.ones(2)}, InputError, r"sums to have one entry per node \(3\), got 2"),
        ({"weight": "degree", "nodes": (0, 1)}, InputError, "expected in-edges to draw nodes by degree"),
        ({"counts": np.array([-1])}, InputError, "counts of at least 0, got -1"),
        ({"reject": np.array([7])}, InputError, r"sources\[0\] = 7 is not a node"),
        ({"reject": np.array([0, 0])}, InputError, r"sources to have one entry per pair \(1\), got 2"),
        ({"reject": np.array([0]), "nodes": (1, 3)}, InputError, "pair 4 has no negative: node 0 has edges to all"),
        ({"first_pair": -1}, InputError, "first_pair to be an int of at least 0"),
    ],
    ids=str,
)
def test_refusals(changes, error, message):
    indptr, indices = graph_of([0, 0], [1, 2], 3)
    arguments = {"counts": np.array([2]), "key": 1, "first_pair": 4, **changes}
    with pytest.raises(error, match=message):
        draw_negatives(indptr, indices, arguments.pop("counts"), **arguments)
