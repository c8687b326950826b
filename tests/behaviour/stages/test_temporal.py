"""Temporal sampling: a tree has only what was there at the time of its seed, whatever else a plan says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

MOMENTS = st.integers(-4, 4)
EXPANDS = st.sampled_from(["all", "new"])


@st.composite
def timed_graphs(draw, *, kinds=("edges", "nodes", "both"), max_nodes=12, max_edges=60):
    """Graphs with times "t" of edges, of nodes or of both, integers or floating point, and with weights, some 0."""
    num_nodes = draw(st.integers(1, max_nodes))
    num_edges = draw(st.integers(0, max_edges))
    ids = st.lists(st.integers(0, num_nodes - 1), min_size=num_edges, max_size=num_edges)
    dtype = draw(st.sampled_from([torch.int64, torch.int32, torch.float32]))

    def moments(count):
        return torch.tensor(draw(st.lists(MOMENTS, min_size=count, max_size=count)), dtype=dtype)

    kind = draw(st.sampled_from(kinds))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=num_edges, max_size=num_edges))
    edge_attrs = {"w": torch.tensor(weights, dtype=torch.float32)}
    if kind != "nodes":
        edge_attrs["t"] = moments(num_edges)
    return hr.Graph.from_coo(
        torch.tensor(draw(ids), dtype=torch.int64),
        torch.tensor(draw(ids), dtype=torch.int64),
        num_nodes=num_nodes,
        edge_attrs=edge_attrs,
        node_attrs={} if kind == "edges" else {"t": moments(num_nodes)},
    )


def seeds_of(draw, graph, *, repeats=True):
    """Some seeds, with times of the kind of the graph's."""
    ids = st.integers(0, graph.num_nodes - 1)
    seeds = draw(st.lists(ids, min_size=1, max_size=6, unique=not repeats))
    times = draw(st.lists(MOMENTS, min_size=len(seeds), max_size=len(seeds)))
    known = [attrs["t"] for attrs in (graph.edge_attrs, graph.node_attrs) if "t" in attrs]
    return torch.tensor(seeds), torch.tensor(times).to(known[0].dtype)


def edges_of(graph):
    """Every edge as (source, destination, time, id); the time is the later one of the edge's and its source's."""
    of_nodes = graph.node_attrs.get("t")
    of_edges = graph.edge_attrs_csc.get("t")
    edges = []
    for node in range(graph.num_nodes):
        for place in range(int(graph.indptr[node]), int(graph.indptr[node + 1])):
            source = int(graph.indices[place])
            times = [] if of_edges is None else [float(of_edges[place])]
            times += [] if of_nodes is None else [float(of_nodes[source])]
            edges.append((source, node, max(times), int(graph.edge_ids[place])))
    return edges


def trees_by_hand(graph, seeds, times, num_hops, window=None, *, strictly=False):
    """The edges of each seed's tree by a search, edge by edge."""
    edges = edges_of(graph)
    trees = []
    for seed, time in zip(seeds.tolist(), times.tolist(), strict=True):
        reached, found = {seed}, set()
        for _ in range(num_hops):
            early = -float("inf") if window is None else time - window
            hop = {edge for edge in edges if edge[1] in reached and early <= edge[2] <= time}
            hop = {edge for edge in hop if not strictly or edge[2] < time}
            reached |= {source for source, *_ in hop}
            found |= hop
        trees.append({edge[3] for edge in found})
    return trees


def trees_of(batch):
    """The edge ids in each slot of a batch, after checking that no edge leads from one slot to another."""
    trees = [set() for _ in range(batch.num_seeds)]
    for block in batch.blocks:
        sources, destinations = block.edge_index
        assert torch.equal(batch.slot[sources], batch.slot[destinations])
        for slot, edge in zip(batch.slot[destinations].tolist(), block.edge_ids.tolist(), strict=True):
            trees[slot].add(edge)
    return trees


def only_batch(plan, **options):
    (batch,) = plan.loader(**options)
    return batch


@given(timed_graphs(), st.integers(1, 3), EXPANDS, st.booleans(), st.data())
def test_temporal_trees_of_full_fanout_equal_a_search(graph, num_hops, expand, strictly, data):
    window = data.draw(st.one_of(st.none(), st.integers(int(strictly), 5)))
    seeds, times = seeds_of(data.draw, graph)
    sampler = data.draw(st.sampled_from(["sample_neighbor", "sample_layer_neighbor"]))
    plan = getattr(hr.ItemSampler(seeds, time=times, seed=1), sampler)(
        graph, [-1] * num_hops, time="t", window=window, expand=expand, strictly_before=strictly
    )
    batch = only_batch(plan, fuse_sampling=data.draw(st.booleans()))
    assert trees_of(batch) == trees_by_hand(graph, seeds, times, num_hops, window, strictly=strictly)


SAMPLERS = [
    ("sample_neighbor", {}),
    ("sample_neighbor", {"replace": True}),
    ("sample_neighbor", {"strategy": "last"}),
    ("sample_neighbor", {"weight": "w"}),
    ("sample_neighbor", {"weight": "w", "replace": True}),
    ("sample_layer_neighbor", {}),
    ("sample_layer_neighbor", {"exact": False}),
    ("sample_layer_neighbor", {"weight": "w"}),
    ("sample_layer_neighbor", {"layer_dependency": True}),
]


@pytest.mark.slow
@pytest.mark.combinations(2)
@pytest.mark.parametrize(("sampler", "options"), SAMPLERS, ids=str)
@given(graph=timed_graphs(), data=st.data())
def test_peers_14_nothing_in_a_tree_is_later_than_its_seed(sampler, options, graph, data):
    """Under any combination: rules, weights, windows, times of edges and nodes, hop rules, threads, passes."""
    seeds, times = seeds_of(data.draw, graph)
    strictly = data.draw(st.booleans())
    window = data.draw(st.one_of(st.none(), st.integers(int(strictly), 5)))
    fanouts = data.draw(st.lists(st.integers(-1, 4), min_size=1, max_size=3))
    plan = getattr(hr.ItemSampler(seeds, time=times, batch_size=3, seed=data.draw(st.integers(0, 9))), sampler)(
        graph, fanouts, time="t", window=window, expand=data.draw(EXPANDS), strictly_before=strictly, **options
    )
    time_of = {edge: time for _, _, time, edge in edges_of(graph)}
    for batch in plan.loader(fuse_sampling=data.draw(st.booleans()), num_threads=data.draw(st.integers(1, 2))):
        for slot, tree in enumerate(trees_of(batch)):
            latest = float(batch.seed_time[slot])
            assert all(time_of[edge] < latest if strictly else time_of[edge] <= latest for edge in tree)
            assert window is None or all(time_of[edge] >= latest - window for edge in tree)
        if "t" in graph.node_attrs:
            reached = slice(batch.num_seeds, None)
            assert (graph.node_attrs["t"][batch.n_id[reached]] <= batch.seed_time[batch.slot[reached]]).all()


def test_peers_14_equal_times_are_included():
    graph = hr.Graph.from_coo([1, 2, 3], [0, 0, 0], edge_attrs={"t": [4, 5, 6]})
    plan = hr.ItemSampler([0, 0], time=[5, 3], seed=0).sample_neighbor(graph, [-1], time="t")
    batch = only_batch(plan)
    assert [sorted(tree) for tree in trees_of(batch)] == [[0, 1], []]
    window = hr.ItemSampler([0], time=[6], seed=0).sample_neighbor(graph, [-1], time="t", window=1)
    assert [sorted(tree) for tree in trees_of(only_batch(window))] == [[1, 2]]


@given(timed_graphs(), st.integers(0, 5), st.data())
def test_peers_14_last_is_the_most_recent(graph, fanout, data):
    """Of edges of one time those that came last."""
    seeds, times = seeds_of(data.draw, graph)
    plan = hr.ItemSampler(seeds, time=times, seed=3).sample_neighbor(graph, [fanout], time="t", strategy="last")
    edges = edges_of(graph)
    for slot, tree in enumerate(trees_of(only_batch(plan))):
        there = [edge for edge in edges if edge[1] == seeds[slot] and edge[2] <= times[slot]]
        latest = sorted(there, key=lambda edge: edge[2])[max(0, len(there) - fanout) :]
        assert tree == {edge[3] for edge in latest}


def test_peers_14_times_of_seeds_go_before_those_of_their_nodes():
    graph = hr.Graph.from_coo([1, 2], [0, 0], node_attrs={"t": [7, 5, 9]})

    def neighbors(**times):
        batch = only_batch(hr.ItemSampler([0], seed=0, **times).sample_neighbor(graph, [-1], time="t"))
        return batch.seed_time.tolist(), batch.n_id.tolist()

    assert neighbors() == ([7], [0, 1])
    assert neighbors(time="t") == ([7], [0, 1])
    assert neighbors(time=[9]) == ([9], [0, 1, 2])
    assert neighbors(time=[4]) == ([4], [0])


@pytest.mark.law
@pytest.mark.parametrize("sampler", ["sample_neighbor", "sample_layer_neighbor"])
def test_peers_14_the_edges_of_a_tree_are_equally_likely(sampler):
    """Of 12 in-edges 8 are early enough, 3 are picked, in 2,000 trees: each in 750 of them, within five deviations."""
    graph = hr.Graph.from_coo(
        torch.arange(1, 13), torch.zeros(12, dtype=torch.int64), edge_attrs={"t": torch.arange(12)}
    )
    items = hr.ItemSampler(
        torch.zeros(2_000, dtype=torch.int64), time=torch.full((2_000,), 7), batch_size=2_000, seed=2
    )
    batch = only_batch(getattr(items, sampler)(graph, [3], time="t"))
    counts = np.bincount(batch.blocks[0].edge_ids.numpy(), minlength=12)
    assert counts[8:].sum() == 0
    assert np.abs(counts[:8] - 750).max() < 5 * np.sqrt(750 * 5 / 8)


def test_peers_14_weights_count_under_the_bound():
    graph = hr.Graph.from_coo([1, 2, 3, 4], [0] * 4, edge_attrs={"t": [1, 2, 3, 9], "w": [1.0, 0.0, 3.0, 100.0]})
    items = hr.ItemSampler(
        torch.zeros(4_000, dtype=torch.int64), time=torch.full((4_000,), 5), batch_size=4_000, seed=2
    )
    batch = only_batch(items.sample_neighbor(graph, [1], time="t", weight="w"))
    counts = np.bincount(batch.blocks[0].edge_ids.numpy(), minlength=4)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert abs(counts[0] - 1_000) < 5 * np.sqrt(750)


@given(timed_graphs(), EXPANDS, st.data())
def test_peers_14_rows_need_not_be_sorted(graph, expand, data):
    """A graph sorted at construction has the same trees, and its rows are not copied."""
    seeds, times = seeds_of(data.draw, graph)
    sources = torch.empty(graph.num_edges, dtype=torch.int64)
    sources[graph.edge_ids.long()] = graph.indices.long()
    destinations = torch.empty_like(sources)
    destinations[graph.edge_ids.long()] = torch.arange(graph.num_nodes).repeat_interleave(graph.in_degrees())
    arrays = {"edge_attrs": dict(graph.edge_attrs), "node_attrs": dict(graph.node_attrs)}
    there = hr.Graph.from_coo(sources, destinations, num_nodes=graph.num_nodes, time="t", **arrays)
    assert there.by_time("t").indices is there.indices
    found = [
        only_batch(hr.ItemSampler(seeds, time=times, seed=5).sample_neighbor(one, [2, 2], time="t", expand=expand))
        for one in (graph, there)
    ]
    assert found[0].digest() == found[1].digest()


def test_a_pair_has_one_tree():
    graph = hr.Graph.from_coo([1, 2, 3], [0, 0, 1], edge_attrs={"t": [1, 5, 1]})
    pairs = torch.tensor([[0, 1], [0, 0], [1, 0]])
    batch = only_batch(hr.ItemSampler(pairs, time=[9, 9, 3], seed=0).sample_neighbor(graph, [-1], time="t"))
    assert batch.n_id[:5].tolist() == [0, 1, 0, 1, 0]
    assert batch.slot[:5].tolist() == [0, 0, 1, 2, 2]
    assert batch.seed_index.tolist() == [[0, 1], [2, 2], [3, 4]]
    assert torch.equal(batch.n_id[batch.seed_index], pairs)
    assert [sorted(tree) for tree in trees_of(batch)] == [[0, 1, 2], [0, 1], [0, 2]]


def test_the_base_of_samplers_in_trees_says_what_is_in_them():
    graph = hr.Graph.from_coo([1], [0], edge_attrs={"t": [1]})
    stages = [
        hr.ItemSampler([0], seed=0).sample_neighbor(graph, [1], **options).stages[1]
        for options in ({}, {"disjoint": True}, {"time": "t"})
    ]
    assert all(isinstance(stage, hr.ext.HopSampler) for stage in stages)
    assert [stage.in_trees for stage in stages] == [False, True, True]
