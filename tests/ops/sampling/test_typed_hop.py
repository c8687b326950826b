"""Hops of graphs with types against the reference, and rows of nodes and relations against the edges."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typed_graphs import TypedGraph, typed_graphs

from headrace import ops
from headrace.ops import BlockSampler, compact, find_edges, sample_hop
from headrace.ops.reference.typed_hop import sample_typed_hop as oracle_of
from headrace.ops.sampling.compact import compact_elements

from samples import assert_same, numpy_of
from strategies import edge_weights, expands, keys, rules, thread_counts

ANY_RULE = rules()
PER_DESTINATION = ANY_RULE.filter(lambda rule: rule.per_destination)


def typed_hop(rows, indices, *arguments, **named):
    return sample_hop(rows.row_ptr, indices, *arguments, rows=rows, **named)


def rule_of(data: st.DataObject, graph: TypedGraph, of_one: st.SearchStrategy[ops.Rule] = ANY_RULE) -> ops.ByRelation:
    """Draw a rule for each relation, often of few kinds."""
    few = data.draw(st.lists(of_one, min_size=1, max_size=graph.num_relations))
    return ops.ByRelation(tuple(data.draw(st.sampled_from(few)) for _ in range(graph.num_relations)))


def frontier_of(data: st.DataObject, graph: TypedGraph, unique: bool) -> torch.Tensor:
    nodes = st.lists(st.integers(0, graph.rows.num_nodes - 1), max_size=12, unique=unique)
    return torch.tensor(data.draw(nodes, label="frontier"), dtype=torch.int64)


@pytest.mark.twins
@given(typed_graphs(), keys, thread_counts, st.booleans(), st.data())
def test_typed_hop_equals_reference(graph, key, num_threads, weighted, data):
    frontier, rule = frontier_of(data, graph, unique=False), rule_of(data, graph)
    weights = data.draw(edge_weights(graph)) if weighted else None
    hop = typed_hop(graph.rows, graph.indices, frontier, rule, key, weights=weights, num_threads=num_threads)
    expected = oracle_of(graph.rows, graph.indices.numpy(), frontier.numpy(), rule, key, weights=numpy_of(weights))
    for field in ("indptr", "neighbors", "positions"):
        assert_same(getattr(hop, field), getattr(expected, field))
    if hop.weights is not None and len(hop.weights):
        assert_same(hop.weights, expected.weights)


@pytest.mark.twins
@given(typed_graphs(), st.booleans(), st.data())
def test_edges_of_pairs_are_found_by_relation(graph, in_trees, data):
    """Those of a relation that does not end in a destination are none."""
    node = st.integers(0, graph.rows.num_nodes - 1)
    pair = st.tuples(node, node, st.integers(0, graph.num_relations - 1), st.integers(0, 2))
    ids = torch.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    ends = torch.arange(graph.rows.num_nodes).repeat_interleave(graph.indptr.diff())
    of_edges = zip(graph.indices, ends, graph.relation_of_edge[ids.numpy()], strict=True)
    edges = [(int(u), int(v), int(relation), 1) for u, v, relation in of_edges]
    pairs = data.draw(st.lists(st.one_of(pair, st.sampled_from(edges)) if edges else pair, max_size=20))
    columns = torch.tensor(pairs, dtype=torch.int64).view(-1, 4).t().contiguous()
    sources, destinations, relations, slots = columns
    found = find_edges(
        graph.rows.row_ptr,
        graph.indices,
        sources,
        destinations,
        slots=slots if in_trees else None,
        rows=graph.rows,
        relations=relations,
    )
    asked = {(u, v, relation, slot if in_trees else 0) for u, v, relation, slot in pairs}
    expected = sorted(
        (slot, position)
        for position, (u, v, relation, _) in enumerate(edges)
        for slot in range(3)
        if (u, v, relation, slot) in asked
    )
    of_slots = torch.zeros_like(found.rows) if found.slots is None else found.slots
    entries = zip(of_slots.repeat_interleave(found.starts.diff()).tolist(), found.positions.tolist(), strict=True)
    assert sorted(entries) == expected
    ends = graph.rows.row_ptr[found.rows + 1].repeat_interleave(found.starts.diff())
    assert bool((found.positions < ends).all())


def per_element(data: st.DataObject, size: int) -> torch.Tensor:
    return torch.tensor(data.draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size)), dtype=torch.int64)


def times_of(data: st.DataObject, graph: TypedGraph) -> torch.Tensor:
    """Draw times that ascend within each row."""
    times = per_element(data, graph.num_edges)
    for start, stop in pairwise(graph.rows.row_ptr.tolist()):
        times[start:stop] = times[start:stop].sort().values
    return times


@pytest.mark.slow
@pytest.mark.twins
@given(typed_graphs(), keys, st.booleans(), st.booleans(), st.data())
def test_slots_and_bounds_equal_the_reference(graph, key, in_slots, windowed, data):
    frontier, rule = frontier_of(data, graph, unique=False), rule_of(data, graph, PER_DESTINATION)
    of_elements = {
        "slots": per_element(data, len(frontier)) if in_slots else None,
        "times": times_of(data, graph),
        "bounds": per_element(data, len(frontier)),
        "lows": per_element(data, len(frontier)) if windowed else None,
    }
    hop = typed_hop(graph.rows, graph.indices, frontier, rule, key, **of_elements)
    arrays = {name: numpy_of(values) for name, values in of_elements.items()}
    expected = oracle_of(graph.rows, graph.indices.numpy(), frontier.numpy(), rule, key, **arrays)
    for field in ("indptr", "neighbors", "positions"):
        assert_same(getattr(hop, field), getattr(expected, field))
    if hop.weights is not None and len(hop.weights):
        assert_same(hop.weights, expected.weights)


@pytest.mark.slow
@pytest.mark.twins
@given(typed_graphs(), st.lists(keys, min_size=1, max_size=2), expands, st.booleans(), st.booleans(), st.data())
def test_trees_are_those_hop_by_hop(graph, hop_keys, expand, weighted, windowed, data):
    """Seeds that come twice grow two trees, by types and times together."""
    seeds = frontier_of(data, graph, unique=False)
    hop_rules = [rule_of(data, graph, PER_DESTINATION) for _ in hop_keys]
    weights = data.draw(edge_weights(graph)) if weighted else None
    times, bounds = times_of(data, graph), per_element(data, len(seeds))
    lows = per_element(data, len(seeds)) if windowed else None
    sampler = BlockSampler(graph.indptr, graph.indices, None, weights, times=times, rows=graph.rows)
    trees = ops.Trees(torch.arange(len(seeds)), len(seeds), None, bounds, lows)
    sampled = sampler.sample(seeds, hop_rules, hop_keys, expand=expand, trees=trees)
    n_id, slot, first, edges = seeds, trees.slots, 0, []
    for rule, key in zip(hop_rules, hop_keys, strict=True):
        own, more = slot[first:], {} if lows is None else {"lows": lows[slot[first:]]}
        hop = typed_hop(graph.rows, graph.indices, n_id[first:], rule, key,
            weights=weights, slots=own, times=times, bounds=bounds[own], **more,
        )  # fmt: skip
        of_edges = own.repeat_interleave(hop.indptr.diff())
        first = len(n_id) if expand == "new" else 0
        edges.append(hop.positions)
        n_id, slot, _ = compact_elements(n_id, slot, hop.neighbors, of_edges, graph.rows.num_nodes)
    assert torch.equal(sampled.n_id, n_id)
    assert torch.equal(sampled.slots, slot)
    assert torch.equal(torch.cat([hop.edge_ids for hop in sampled.hops]), torch.cat(edges))


@pytest.mark.slow
@pytest.mark.twins
@given(typed_graphs(), st.lists(keys, min_size=1, max_size=3), expands, thread_counts, st.booleans(), st.data())
def test_fused_equals_hop_by_hop(graph, hop_keys, expand, num_threads, weighted, data):
    seeds = frontier_of(data, graph, unique=True)
    hop_rules = [rule_of(data, graph) for _ in hop_keys]
    weights = data.draw(edge_weights(graph)) if weighted else None
    sampler = BlockSampler(graph.indptr, graph.indices, graph.edge_ids, weights, rows=graph.rows)
    sampled = sampler.sample(seeds, hop_rules, hop_keys, expand=expand, num_threads=num_threads)
    n_id, first, edges = seeds, 0, []
    for rule, key in zip(hop_rules, hop_keys, strict=True):
        hop = typed_hop(graph.rows, graph.indices, n_id[first:], rule, key, weights=weights)
        first = len(n_id) if expand == "new" else 0
        edges.append(hop.positions if graph.edge_ids is None else graph.edge_ids[hop.positions].long())
        n_id = compact(n_id, hop.neighbors).ids
    assert torch.equal(sampled.n_id, n_id)
    assert torch.equal(torch.cat([hop.edge_ids for hop in sampled.hops]), torch.cat(edges))


@pytest.mark.twins
@given(typed_graphs(), ANY_RULE, keys, st.data())
def test_one_relation_is_the_graph_without_types(graph, rule, key, data):
    frontier = frontier_of(data, graph, unique=False)
    num_nodes = graph.rows.num_nodes
    offsets = torch.tensor([0, graph.num_edges])
    rows = ops.typed_rows(graph.indptr, offsets, graph.edge_ids, (0, num_nodes), [(0,)])
    typed = typed_hop(rows, graph.indices, frontier, ops.ByRelation((rule,)), key)
    plain = sample_hop(graph.indptr, graph.indices, frontier, rule, key)
    for one, other in zip(typed, plain, strict=True):
        assert_same(one, other)


def test_draws_of_relations_are_independent():
    """Two relations with the same edges: all pairs of picks are alike likely (chi-square, 64 cells, 64,000 draws)."""
    degree, draws = 8, 64_000
    nodes = torch.arange(degree, degree + draws)
    src = torch.arange(degree).repeat(draws)
    dst = nodes.repeat_interleave(degree)
    csc = ops.coo_to_csc(src.repeat(2), dst.repeat(2), degree + draws)
    offsets = torch.tensor([0, len(src), 2 * len(src)])
    rows = ops.typed_rows(csc.indptr, offsets, csc.edge_ids, (0, degree + draws), [(0,), (0,)])
    rule = ops.ByRelation((ops.NeighborRule(1), ops.NeighborRule(1)))
    picked = typed_hop(rows, csc.indices, nodes, rule, 3).neighbors.long().view(draws, 2)
    counts = torch.bincount(picked[:, 0] * degree + picked[:, 1], minlength=degree**2).double()
    statistic = float(((counts - draws / degree**2) ** 2 / (draws / degree**2)).sum())
    assert 25 < statistic < 122  # of 63 degrees of freedom, outside of which is 1e-5


@pytest.mark.twins
def test_labor_shares_variates_over_relations():
    """A source that one relation of two with equal edges picks, the other picks as well."""
    src, dst = torch.arange(40), torch.full((40,), 40)
    csc = ops.coo_to_csc(src.repeat(2), dst.repeat(2), 41)
    rows = ops.typed_rows(csc.indptr, torch.tensor([0, 40, 80]), csc.edge_ids, (0, 41), [(0,), (0,)])
    rule = ops.ByRelation((ops.LaborRule(5), ops.LaborRule(5)))
    picked = typed_hop(rows, csc.indices, torch.tensor([40]), rule, 3).neighbors
    assert picked[:5].tolist() == picked[5:].tolist()


@pytest.mark.twins
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"rule": ops.ByRelation((ops.NeighborRule(2),))}, "a rule for each of 2 relations"),
        ({"rule": ops.NeighborRule(2)}, "a rule for each of 2 relations"),
        ({"frontier": torch.tensor([9])}, "not a node"),
        ({"frontier": torch.tensor([0.5])}, "frontier"),
    ],
)
def test_refusals(change, match):
    csc = ops.coo_to_csc(torch.tensor([0, 1]), torch.tensor([2, 2]), 3)
    rows = ops.typed_rows(csc.indptr, torch.tensor([0, 1, 2]), csc.edge_ids, (0, 2, 3), [(1,), (1,)])
    arguments = {"frontier": torch.tensor([2]), "rule": ops.ByRelation((ops.NeighborRule(2), ops.NeighborRule(1)))}
    arguments |= change
    with pytest.raises(ops.InputError, match=match):
        typed_hop(rows, csc.indices, key=1, **arguments)


def test_a_rule_by_relation_needs_types():
    csc = ops.coo_to_csc(torch.tensor([0, 1]), torch.tensor([2, 2]), 3)
    with pytest.raises(ops.InputError, match="without types"):
        BlockSampler(csc.indptr, csc.indices).sample(torch.tensor([2]), [ops.ByRelation((ops.NeighborRule(1),))], [1])
