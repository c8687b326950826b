"""Excluded edges are never picked; the picks are those of a graph without them. Peers.md, A 5.18."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace.ops import (
    BlockSampler,
    EdgePositions,
    InputError,
    LaborImportanceRule,
    LaborRule,
    LadiesRule,
    NeighborRule,
    find_edges,
    reference,
    sample_hop,
)

from samples import BIG_RULES, assert_same, numpy_of, same
from strategies import csc_graphs, edge_weights, expands, keys, nodes_of, rules, thread_counts

pytestmark = pytest.mark.twins

LAYER_WISE = [LaborImportanceRule(2), LadiesRule(3), LadiesRule(3, poisson=True)]


def pairs_of(graph, data):
    """Pairs of nodes, some of them edges of the graph, some twice."""
    if graph.num_nodes == 0:
        return (np.empty(0, np.int64),) * 2
    node = st.integers(0, graph.num_nodes - 1)
    ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr.numpy()))
    any_pair = st.tuples(node, node)
    edges = [(int(u), int(v)) for u, v in zip(graph.indices, ends, strict=True)]
    pair = st.one_of(any_pair, st.sampled_from(edges)) if edges else any_pair
    pairs = np.array(data.draw(st.lists(pair, max_size=40)), np.int64).reshape(-1, 2)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


@given(csc_graphs(), thread_counts, st.data())
def test_find_edges_equals_the_reference(graph, num_threads, data):
    pairs = pairs_of(graph, data)
    found = find_edges(graph.indptr, graph.indices, *pairs, num_threads=num_threads)
    positions = reference.links.find_edges(graph.indptr.numpy(), graph.indices.numpy(), *pairs)
    assert_same(found.positions, positions)
    rows = np.searchsorted(graph.indptr.numpy(), positions, side="right") - 1
    assert_same(found.rows, np.unique(rows))
    assert_same(found.starts, np.concatenate([[0], np.cumsum(np.unique(rows, return_counts=True)[1])]))


@given(csc_graphs(), st.booleans(), st.data())
def test_of_edges_between_a_pair_the_one_that_is_wanted_is_found(graph, in_trees, data):
    """Of each pair by its id, -1 for none; an id that is that of an edge between others is nothing."""
    sources, destinations = pairs_of(graph, data)
    size = len(sources)
    ids = None if graph.edge_ids is None else graph.edge_ids
    number = st.integers(-1, graph.num_edges + 1)
    wanted = np.array(data.draw(st.lists(number, min_size=size, max_size=size)), np.int64)
    slots = np.array(data.draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), np.int64)
    of_pairs = {"slots": slots if in_trees else None, "wanted": wanted, "edge_ids": ids}
    found = find_edges(graph.indptr, graph.indices, sources, destinations, **of_pairs)
    arrays = graph.indptr.numpy(), graph.indices.numpy(), sources, destinations
    if not in_trees:
        assert_same(found.positions, reference.links.find_edges(*arrays, wanted, numpy_of(ids)))
        return
    trees = reference.links.find_edges_by_tree(*arrays, slots, wanted, numpy_of(ids))
    of_slots = found.slots.repeat_interleave(found.starts.diff())
    assert len(of_slots) == sum(map(len, trees.values()))
    for slot, positions in trees.items():
        assert_same(found.positions[of_slots == slot], positions)


def test_a_pair_may_have_many_edges():
    """More than there is room for at first."""
    indptr, indices = np.array([0, 2, 900, 902]), np.array([1, 1, *[2, 0] * 449, 1, 2])
    found = find_edges(indptr, indices, np.array([0, 2]), np.array([1, 2]))
    assert found.rows.tolist() == [1, 2]
    assert found.starts.tolist() == [0, 449, 450]
    assert found.positions.tolist() == [*range(3, 900, 2), 901]


def test_many_sources_of_one_row_are_found():
    """More than are compared one by one, over several blocks of the row; and ids that 32 bits would cut short."""
    indices = torch.from_numpy(np.random.default_rng(0).permutation(1_000)).int()
    indptr = torch.tensor([0, 1_000, *[1_000] * 999])
    for count in (1, 8, 9, 300):
        sources = np.arange(0, 3 * count, 3)
        found = find_edges(indptr, indices, sources, np.zeros(count, np.int64))
        assert torch.equal(indices[found.positions].sort().values.long(), torch.from_numpy(sources))
        assert torch.equal(found.positions, found.positions.sort().values)


def timed(graph, data):
    num_edges = len(graph.indices)
    times = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=num_edges, max_size=num_edges)), np.int64)
    for start, stop in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        times[start:stop].sort()
    return times


@given(csc_graphs(), rules(), keys, thread_counts, st.tuples(st.booleans(), st.booleans(), st.booleans()), st.data())
def test_a_hop_equals_the_reference_without_the_edges(graph, rule, key, num_threads, given_ones, data):
    """Every rule, by weight too; and rows that are cut at a bound, in trees."""
    weighted, in_slots, bounded = given_ones
    frontier = data.draw(nodes_of(graph, unique=False))
    weights = data.draw(edge_weights(graph)) if weighted else None
    found = find_edges(graph.indptr, graph.indices, *pairs_of(graph, data))
    moments = st.lists(st.integers(-3, 3), min_size=len(frontier), max_size=len(frontier))
    more = {}
    if rule.per_destination:
        more["slots"] = np.array(data.draw(moments), np.int64) if in_slots else None
        if bounded:
            more |= {"times": timed(graph, data), "bounds": np.array(data.draw(moments), np.int64)}
    arrays = graph.indptr, graph.indices, frontier, rule, key
    hop = sample_hop(*arrays, weights=weights, num_threads=num_threads, excluded=found, **more)
    oracle = reference.sample_hop(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        frontier.numpy(),
        rule,
        key,
        weights=numpy_of(weights),
        excluded=found.positions.numpy(),
        **more,
    )
    for field in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, field), getattr(oracle, field))
    assert not np.isin(hop.positions, found.positions).any()


@pytest.mark.slow
@pytest.mark.combinations(5)
@pytest.mark.parametrize("rule", [LaborRule(2), LaborRule(3, exact=False), *LAYER_WISE], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@given(graph=csc_graphs(), key=keys, data=st.data())
def test_one_of_parallel_edges_may_be_excluded(rule, weighted, graph, key, data):
    """Those that are left are numbered anew."""
    frontier = data.draw(nodes_of(graph))
    weights = data.draw(edge_weights(graph)) if weighted else None
    gone = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=graph.num_edges, max_size=graph.num_edges)))
    rows = np.searchsorted(graph.indptr.numpy(), gone, side="right") - 1
    distinct, counts = np.unique(rows, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    excluded = EdgePositions(torch.from_numpy(distinct), torch.from_numpy(starts), torch.from_numpy(gone))
    hop = sample_hop(graph.indptr, graph.indices, frontier, rule, key, weights=weights, excluded=excluded)
    arrays = graph.indptr.numpy(), graph.indices.numpy(), frontier.numpy()
    oracle = reference.sample_hop(*arrays, rule, key, weights=numpy_of(weights), excluded=gone)
    for field in ("indptr", "neighbors", "positions", "weights"):
        assert_same(getattr(hop, field), getattr(oracle, field))


@pytest.mark.cpu  # what stands in for a GPU would take long
@pytest.mark.parametrize("rule", BIG_RULES, ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("num_threads", [1, 2])
def test_hubs_without_many_edges(skewed, rule, weighted, num_threads):
    """Half of the edges of the largest rows, against the graph without them."""
    indptr, indices, _ = skewed
    weights = torch.rand(len(indices), generator=torch.Generator().manual_seed(1)) if weighted else None
    sources = indices[: indptr[40] : 2].long()
    destinations = torch.repeat_interleave(torch.arange(40), indptr[:41].diff())[::2]
    found = find_edges(indptr, indices, sources, destinations, num_threads=num_threads)
    frontier = torch.arange(0, 5_000, 3)
    hop = sample_hop(indptr, indices, frontier, rule, 5, weights=weights, num_threads=num_threads, excluded=found)
    kept = np.delete(np.arange(len(indices)), found.positions)
    less = torch.from_numpy(np.searchsorted(kept, indptr.numpy()))
    other = sample_hop(less, indices[kept], frontier, rule, 5, weights=None if weights is None else weights[kept])
    assert len(found.positions) > 10_000
    assert torch.equal(hop.positions, torch.from_numpy(kept)[other.positions])
    for field in ("indptr", "neighbors", "weights"):
        assert same(getattr(hop, field), getattr(other, field))


@pytest.mark.slow
@given(csc_graphs(), st.lists(st.tuples(rules(), keys), min_size=1, max_size=3), expands, thread_counts, st.data())
def test_all_hops_at_once_equal_those_on_the_graph_without_the_edges(graph, hops, expand, num_threads, data):
    seeds = data.draw(nodes_of(graph))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    found = find_edges(graph.indptr, graph.indices, *pairs_of(graph, data))
    kept = np.delete(np.arange(graph.num_edges), found.positions)
    ids = torch.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    hop_rules, hop_keys = zip(*hops, strict=True)
    sampled = BlockSampler(graph.indptr, graph.indices, ids, weights).sample(
        seeds, hop_rules, hop_keys, expand=expand, num_threads=num_threads, excluded=found
    )
    less = torch.from_numpy(np.searchsorted(kept, graph.indptr.numpy()))
    of_less = None if weights is None else weights[kept]
    other = BlockSampler(less, graph.indices[kept], ids[kept], of_less).sample(
        seeds, hop_rules, hop_keys, expand=expand
    )
    assert torch.equal(sampled.n_id, other.n_id)
    for one, without in zip(sampled.hops, other.hops, strict=True):
        for field in ("indptr", "indices", "edge_ids", "weights"):
            assert same(getattr(one, field), getattr(without, field))


@pytest.mark.parametrize(
    ("rule", "weights"),
    [(LaborRule(3), None), (NeighborRule(5), np.arange(1.0, 41.0)[::-1].copy())],
    ids=["numbers of parallel edges", "running sums"],
)
def test_tables_of_whole_rows_do_not_hold_of_what_is_left(rule, weights):
    indptr, indices = np.array([0, 40, 40, 40]), np.array([1] * 20 + [2] * 20)
    gone = excluded(starts=(0, 15), positions=range(15))
    seeds = np.zeros(1, np.int64)
    without = BlockSampler(indptr, indices, None, weights).sample(seeds, [rule], [5], excluded=gone)
    less = BlockSampler(indptr.clip(max=25), indices[15:], None, None if weights is None else weights[15:])
    assert (without.hops[0].edge_ids - 15).tolist() == less.sample(seeds, [rule], [5]).hops[0].edge_ids.tolist()


@pytest.mark.parametrize("rule", [NeighborRule(-1), NeighborRule(2), LaborRule(2)], ids=str)
def test_rows_come_in_any_order(rule):
    indptr, indices, frontier = np.array([0, 3, 6, 6]), np.array([0, 1, 2, 2, 1, 0]), np.array([0, 1, 1])
    hops = [
        sample_hop(indptr, indices, frontier, rule, 3, excluded=excluded(rows, (0, 1, 2), positions))
        for rows, positions in [((0, 1), (1, 3)), ((1, 0), (3, 1))]
    ]
    assert hops[0].positions.tolist() == hops[1].positions.tolist() == [0, 2, 4, 5, 4, 5]


@pytest.mark.law
@pytest.mark.parametrize("rule", [NeighborRule(3), NeighborRule(3, replace=True), LaborRule(3)], ids=str)
def test_what_is_left_is_picked_evenly(rule):
    """Of 12 in-edges 2 are excluded; each other one is among the 3 picks in 3 of 10 trees, of 4,000."""
    indptr, indices = np.array([0, 12, *[12] * 12]), np.arange(1, 13)
    found = find_edges(indptr, indices, np.array([3, 12]), np.zeros(2, np.int64))
    frontier, slots = np.zeros(4_000, np.int64), np.arange(4_000)
    counts = np.bincount(
        sample_hop(indptr, indices, frontier, rule, 5, slots=slots, excluded=found).positions, minlength=12
    )
    assert counts[2] == counts[11] == 0
    left = np.delete(counts, [2, 11])
    assert ((left - 1_200) ** 2 / 1_200).sum() < 27.9  # chi-square of 9 degrees of freedom, 1 in 1,000


def excluded(rows=(0,), starts=(0, 1), positions=(1,)):
    return EdgePositions(*(torch.tensor(one, dtype=torch.int64) for one in (rows, starts, positions)))


@pytest.mark.parametrize(
    ("given_ones", "message"),
    [
        (excluded(rows=(5,)), "expected rows of the graph, got row 5"),
        (excluded(rows=(-1,)), "expected rows of the graph, got row -1"),
        (excluded(rows=(0, 0), starts=(0, 0, 1)), "each row once, got row 0 twice"),
        (excluded(starts=(0, 2)), "starts that ascend from 0 to the number of positions, 1"),
        (excluded(starts=(1, 1)), "starts that ascend"),
        (excluded(starts=(0,)), "starts to have one entry per row and one more"),
        (excluded(positions=(2,)), "positions in row 0, got 2"),
        (excluded(positions=(-1,)), "positions that ascend in row 0"),
        (excluded(starts=(0, 2), positions=(1, 0)), "positions that ascend in row 0"),
        ((1, 2, 3), "excluded to be what find_edges returned"),
    ],
    ids=str,
)
def test_refuses_edges_of_no_graph(given_ones, message):
    arrays = np.array([0, 2, 2]), np.array([0, 1])
    with pytest.raises(InputError, match=message):
        sample_hop(*arrays, np.zeros(1, np.int64), NeighborRule(1), 0, excluded=given_ones)
    with pytest.raises(InputError, match=message):
        BlockSampler(*arrays).sample(np.zeros(1, np.int64), [NeighborRule(1)], [0], excluded=given_ones)


def test_find_edges_refuses_what_is_no_node():
    arrays = np.array([0, 2, 2]), np.array([0, 1])
    zero = np.zeros(1, np.int64)
    with pytest.raises(InputError, match=r"find_edges: destinations\[0\] = 2 is not a node"):
        find_edges(*arrays, zero, zero + 2)
    with pytest.raises(InputError, match=r"find_edges: sources\[0\] = -1 is not a node"):
        find_edges(*arrays, zero - 1, zero)
    with pytest.raises(InputError, match=r"destinations to have one entry per source \(1\), got 2"):
        find_edges(*arrays, zero, np.zeros(2, np.int64))
    with pytest.raises(InputError, match=r"wanted to have one entry per source \(1\), got 2"):
        find_edges(*arrays, zero, zero, wanted=np.zeros(2, np.int64))
    with pytest.raises(InputError, match=r"edge_ids to have one entry per edge \(2\), got 1"):
        find_edges(*arrays, zero, zero, wanted=zero, edge_ids=zero)
    for alone in ({"edge_ids": zero}, {"relations": zero}):
        with pytest.raises(InputError, match="expected relations beside rows, and wanted beside edge_ids"):
            find_edges(*arrays, zero, zero, **alone)


def test_find_edges_refuses_what_is_no_graph():
    zero = np.zeros(1, np.int64)
    with pytest.raises(InputError, match="indptr"):
        find_edges(np.array([0, 3, 3]), np.array([0, 1]), zero, zero)
    with pytest.raises(InputError, match="indptr"):
        find_edges(np.zeros(0, np.int64), np.array([0, 1]), zero, zero)
