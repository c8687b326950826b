"""Times and trees of graphs with types: each relation has its fanout, and all keep to the time of the seed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

MOMENTS = st.integers(-4, 4)
LIKES, KNOWS, MADE = ("user", "likes", "item"), ("user", "knows", "user"), ("item", "made", "user")


@st.composite
def typed_graphs(draw):
    """Users and items with three relations, times of edges, of nodes, or of both."""
    counts = {"user": draw(st.integers(1, 6)), "item": draw(st.integers(1, 6))}
    offset = {"user": 0, "item": counts["user"]}
    src, dst, sizes = [], [], {}
    for name in (LIKES, KNOWS, MADE):
        size = draw(st.integers(0, 15))
        ends = [st.integers(offset[one], offset[one] + counts[one] - 1) for one in (name[0], name[2])]
        src += draw(st.lists(ends[0], min_size=size, max_size=size))
        dst += draw(st.lists(ends[1], min_size=size, max_size=size))
        sizes[name] = size
    times = {"edge": torch.tensor(draw(st.lists(MOMENTS, min_size=len(src), max_size=len(src))), dtype=torch.int64)}
    num_nodes = sum(counts.values())
    times["node"] = torch.tensor(draw(st.lists(MOMENTS, min_size=num_nodes, max_size=num_nodes)))
    kept = draw(st.sampled_from([("edge",), ("node",), ("edge", "node")]))
    return hr.Graph.from_coo(
        torch.tensor(src, dtype=torch.int64),
        torch.tensor(dst, dtype=torch.int64),
        num_nodes=num_nodes,
        edge_attrs={"t": times["edge"]} if "edge" in kept else {},
        node_attrs={"t": times["node"]} if "node" in kept else {},
        node_types=counts,
        edge_types=sizes,
    )


def edges_of(graph):
    """Every edge as (source, destination, time, id)."""
    found = []
    for node in range(graph.num_nodes):
        for place in range(int(graph.indptr[node]), int(graph.indptr[node + 1])):
            source = int(graph.indices[place])
            times = [int(graph.edge_attrs_csc["t"][place])] if "t" in graph.edge_attrs_csc else []
            times += [int(graph.node_attrs["t"][source])] if "t" in graph.node_attrs else []
            found.append((source, node, max(times), int(graph.edge_ids[place])))
    return found


def trees_of(batch):
    trees = [set() for _ in range(batch.num_seeds)]
    for block in batch.blocks:
        sources, destinations = block.edge_index
        assert torch.equal(batch.slot[sources], batch.slot[destinations])
        for slot, edge in zip(batch.slot[destinations].tolist(), block.edge_ids.tolist(), strict=True):
            trees[slot].add(edge)
    return trees


@given(typed_graphs(), st.sampled_from(["all", "new"]), st.booleans(), st.data())
def test_temporal_trees_of_types_equal_a_search(graph, expand, strictly, data):
    window = data.draw(st.one_of(st.none(), st.integers(int(strictly), 5)))
    kind = data.draw(st.sampled_from(["user", "item"]))
    ids = st.integers(0, len(graph.node_types.id_range(kind)) - 1)
    seeds = data.draw(st.lists(ids, min_size=1, max_size=4))
    times = data.draw(st.lists(MOMENTS, min_size=len(seeds), max_size=len(seeds)))
    sampler = data.draw(st.sampled_from(["sample_neighbor", "sample_layer_neighbor"]))
    plan = getattr(hr.ItemSampler({kind: torch.tensor(seeds)}, time=times, seed=1), sampler)(
        graph, [-1, -1], time="t", window=window, expand=expand, strictly_before=strictly
    )
    (batch,) = plan.loader(fuse_sampling=data.draw(st.booleans()))
    for seed, time, tree in zip(batch.n_id.tolist(), times, trees_of(batch), strict=False):
        reached, found = {seed}, set()
        for _ in range(2):
            early = -9 if window is None else time - window
            hop = {edge for edge in edges_of(graph) if edge[1] in reached and early <= edge[2] <= time - strictly}
            reached |= {source for source, *_ in hop}
            found |= hop
        assert tree == {edge[3] for edge in found}


@given(typed_graphs(), st.data())
def test_last_takes_the_most_recent_of_each_relation(graph, data):
    fanouts = {LIKES: [2], KNOWS: [1], MADE: [data.draw(st.integers(-1, 3))]}
    plan = hr.ItemSampler({"user": [0, 0]}, time=[0, 3], seed=1).sample_neighbor(
        graph, fanouts, time="t", strategy="last"
    )
    (batch,) = plan.loader()
    for time, tree in zip([0, 3], trees_of(batch), strict=True):
        expected = set()
        for name, (fanout,) in fanouts.items():
            number = [LIKES, KNOWS, MADE].index(name)
            first, end = graph.edge_types.offsets[number : number + 2].tolist()
            there = [e for e in edges_of(graph) if e[1] == 0 and e[2] <= time and first <= e[3] < end]
            there = sorted(there, key=lambda edge: (edge[2], edge[3]))
            expected |= {e[3] for e in (there if fanout == -1 else there[max(0, len(there) - fanout) :])}
        assert tree == expected


@pytest.mark.parametrize("expand", ["all", "new"])
def test_to_pyg_has_the_trees_of_each_type(expand):
    pytest.importorskip("torch_geometric")
    graph = hr.Graph.from_coo(
        [0, 1, 3],
        [2, 2, 0],
        num_nodes=4,
        edge_attrs={"t": [1, 5, 1]},
        node_types={"user": 2, "item": 2},
        edge_types={LIKES: 2, MADE: 1},
    )
    plan = hr.ItemSampler({"item": [0, 0]}, time=[9, 3], seed=0).sample_neighbor(
        graph, [-1, -1], time="t", expand=expand
    )
    (batch,) = plan.loader()
    data = batch.to_pyg()
    assert data["item"].batch.tolist() == [0, 1, 0, 1]
    assert data["user"].batch.tolist() == [0, 0, 1]
    assert data["item"].seed_time.tolist() == [9, 3]
    source, destination = data[MADE].edge_index
    assert torch.equal(data["item"].batch[source], data["user"].batch[destination])
