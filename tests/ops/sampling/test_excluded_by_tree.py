"""Edges that are not there for one tree alone: its picks are those of a graph without them, the others' are not."""

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
    NeighborRule,
    Trees,
    find_edges,
    reference,
    sample_hop,
)

from samples import assert_same, numpy_of
from strategies import csc_graphs, edge_weights, expands, keys, nodes_of, rules, thread_counts

pytestmark = pytest.mark.twins

SLOTS = st.integers(0, 4)
PER_DESTINATION = rules().filter(lambda rule: rule.per_destination)


def pairs_in_trees(graph, data):
    """Sources, destinations and slots, many of them of edges, in several trees, or twice in one."""
    if graph.num_nodes == 0:
        return (np.empty(0, np.int64),) * 3
    node = st.integers(0, graph.num_nodes - 1)
    ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr.numpy()))
    edges = [(int(u), int(v)) for u, v in zip(graph.indices, ends, strict=True)]
    pair = st.one_of(st.tuples(node, node), st.sampled_from(edges)) if edges else st.tuples(node, node)
    drawn = data.draw(st.lists(st.tuples(pair, SLOTS), max_size=40))
    table = np.array([(u, v, slot) for (u, v), slot in drawn], np.int64).reshape(-1, 3)
    return tuple(column.copy() for column in table.T)


@given(csc_graphs(), thread_counts, st.data())
def test_find_edges_tells_an_edge_for_each_tree(graph, num_threads, data):
    sources, destinations, slots = pairs_in_trees(graph, data)
    found = find_edges(graph.indptr, graph.indices, sources, destinations, slots=slots, num_threads=num_threads)
    of_entry = torch.arange(len(found.rows)).repeat_interleave(found.starts.diff())
    expected = reference.links.find_edges_by_tree(
        graph.indptr.numpy(), graph.indices.numpy(), sources, destinations, slots
    )
    for slot, positions in expected.items():
        assert_same(found.positions[found.slots[of_entry] == slot], positions)
    assert len(found.positions) == sum(map(len, expected.values()))
    entries = list(zip(found.rows.tolist(), found.slots.tolist(), strict=True))
    assert entries == sorted(set(entries))
    owners = np.searchsorted(graph.indptr.numpy(), found.positions.numpy(), side="right") - 1
    assert_same(found.rows[of_entry], owners)


def test_a_hub_with_many_trees():
    """Its row is read once; each of 300 trees is told its own edge, and one of them two."""
    indices = torch.from_numpy(np.random.default_rng(0).permutation(1_000)).int()
    indptr = torch.tensor([0, 1_000, *[1_000] * 999])
    sources, slots = np.append(np.arange(0, 900, 3), 1), np.append(np.arange(300), 7)
    found = find_edges(indptr, indices, sources, np.zeros(301, np.int64), slots=slots)
    assert found.slots.tolist() == list(range(300))
    assert found.starts.diff().tolist() == [1 + (slot == 7) for slot in range(300)]
    assert torch.equal(found.positions[:7], torch.tensor([indices.tolist().index(u) for u in range(0, 21, 3)]))
    assert set(indices[found.positions[7:9]].tolist()) == {21, 1}


def timed(graph, data):
    num_edges = len(graph.indices)
    times = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=num_edges, max_size=num_edges)), np.int64)
    for start, stop in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        times[start:stop].sort()
    return times


@given(csc_graphs(), PER_DESTINATION, keys, thread_counts, st.tuples(st.booleans(), st.booleans()), st.data())
def test_a_hop_equals_the_reference_tree_by_tree(graph, rule, key, num_threads, given_ones, data):
    """Every rule, by weight too, and rows that are cut at a bound."""
    weighted, bounded = given_ones
    frontier = data.draw(nodes_of(graph, unique=False))
    size = len(frontier)
    slots = np.array(data.draw(st.lists(SLOTS, min_size=size, max_size=size)), np.int64)
    weights = data.draw(edge_weights(graph)) if weighted else None
    more = {}
    if bounded:
        bounds = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), np.int64)
        more = {"times": timed(graph, data), "bounds": bounds}
    pairs = pairs_in_trees(graph, data)
    found = find_edges(graph.indptr, graph.indices, *pairs[:2], slots=pairs[2])
    arrays = graph.indptr, graph.indices, frontier, rule, key
    hop = sample_hop(*arrays, weights=weights, num_threads=num_threads, slots=slots, excluded=found, **more)
    oracle = reference.sample_hop(
        graph.indptr.numpy(),
        graph.indices.numpy(),
        frontier.numpy(),
        rule,
        key,
        weights=numpy_of(weights),
        slots=slots,
        excluded=reference.links.find_edges_by_tree(graph.indptr.numpy(), graph.indices.numpy(), *pairs),
        **more,
    )
    for field in ("indptr", "neighbors", "positions"):
        assert_same(getattr(hop, field), getattr(oracle, field))
    assert oracle.weights is None or np.array_equal(hop.weights.numpy(), oracle.weights)


def edges_of_tree(found, tree):
    """The edges of one tree, as (source, destination, edge id), for each block in order."""
    blocks = []
    for hop in found.hops:
        dst = torch.arange(hop.num_dst).repeat_interleave(hop.indptr.diff())
        mine = found.slots[dst] == tree
        columns = found.n_id[hop.indices.long()], found.n_id[dst], hop.edge_ids
        blocks.append(list(zip(*(column[mine].tolist() for column in columns), strict=True)))
    return blocks


@given(csc_graphs(), st.lists(st.tuples(PER_DESTINATION, keys), min_size=1, max_size=3), expands, st.data())
def test_each_tree_is_that_of_a_graph_without_its_edges(graph, hops, expand, data):
    """All hops at once; trees that are named by streams other than their slots."""
    seeds = data.draw(nodes_of(graph, unique=False, max_size=5))
    streams = 4 - torch.arange(len(seeds))
    weights = data.draw(st.one_of(st.none(), edge_weights(graph)))
    pairs = pairs_in_trees(graph, data)
    found = find_edges(graph.indptr, graph.indices, *pairs[:2], slots=pairs[2])
    ids = torch.arange(graph.num_edges)
    arguments = [rule for rule, _ in hops], [key for _, key in hops]
    trees = Trees(torch.arange(len(seeds)), len(seeds), streams)
    together = BlockSampler(graph.indptr, graph.indices, ids, weights).sample(
        seeds, *arguments, expand=expand, trees=trees, excluded=found
    )
    gone = reference.links.find_edges_by_tree(graph.indptr.numpy(), graph.indices.numpy(), *pairs)
    for tree, (seed, stream) in enumerate(zip(seeds.tolist(), streams.tolist(), strict=True)):
        kept = np.delete(np.arange(graph.num_edges), gone.get(stream, []))
        less = torch.from_numpy(np.searchsorted(kept, graph.indptr.numpy()))
        sampler = BlockSampler(less, graph.indices[kept], ids[kept], None if weights is None else weights[kept])
        alone = sampler.sample(
            torch.tensor([seed]),
            *arguments,
            expand=expand,
            trees=Trees(torch.zeros(1, dtype=torch.int64), 1, torch.tensor([stream])),
        )
        assert edges_of_tree(together, tree) == edges_of_tree(alone, 0)


def excluded(rows=(0, 0), starts=(0, 1, 2), positions=(1, 0), slots=(3, 5)):
    return EdgePositions(*(torch.tensor(one, dtype=torch.int64) for one in (rows, starts, positions, slots)))


@pytest.mark.parametrize(
    ("given_ones", "message"),
    [
        (excluded(slots=(5, 3)), "slots that ascend in row 0"),
        (excluded(slots=(3, 3)), "slots that ascend in row 0"),
        (excluded(slots=(3,)), "slots to have one entry per row"),
        (excluded(rows=(0, 1, 0), starts=(0, 1, 1, 2), slots=(3, 4, 5)), "each row once, got row 0 twice"),
        (excluded(rows=(0, 7)), "expected rows of the graph, got row 7"),
        (excluded(positions=(1, 2)), "positions in row 0, got 2"),
    ],
    ids=str,
)
def test_refuses_what_find_edges_does_not_return(given_ones, message):
    arrays, zero = (np.array([0, 2, 2]), np.array([0, 1])), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(InputError, match=message):
        sample_hop(*arrays, zero, NeighborRule(1), 0, slots=zero, excluded=given_ones)
    with pytest.raises(InputError, match=message):
        BlockSampler(*arrays).sample(zero, [NeighborRule(1)], [0], trees=Trees(zero, 1), excluded=given_ones)


def test_refuses_trees_that_do_not_grow():
    arrays, zero = (np.array([0, 2, 2]), np.array([0, 1])), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(InputError, match="expected trees to leave out edges by tree"):
        sample_hop(*arrays, zero, NeighborRule(1), 0, excluded=excluded())
    with pytest.raises(InputError, match="expected trees to leave out edges by tree"):
        BlockSampler(*arrays).sample(zero, [NeighborRule(1)], [0], excluded=excluded())
    with pytest.raises(InputError, match=r"slots to have one entry per source \(1\), got 2"):
        find_edges(*arrays, zero, zero, slots=torch.zeros(2, dtype=torch.int64))
