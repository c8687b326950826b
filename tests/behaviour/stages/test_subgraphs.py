"""Subgraphs of sampled nodes: all edges among them, and sampled edges in both directions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

from edge_lists import edge_lists
from plans import graph, items, store, typed_graph, typed_items


def edges_of(batch, source, destination):
    """Return the edges of a batch, sorted, each with the ids that the ends of its edge have in the whole graph."""
    (block,) = batch.blocks
    found = batch.n_id[block.edge_index]
    whole = torch.stack([torch.from_numpy(source).long(), torch.from_numpy(destination).long()])[:, block.edge_ids]
    return found, whole


@given(edges=edge_lists(), fanout=st.integers(-1, 3), expand=st.sampled_from(["all", "new"]))
def test_induced_is_all_edges_among_the_nodes(edges, fanout, expand):
    source, destination, num_nodes = edges
    whole = hr.Graph.from_coo(source, destination, num_nodes=num_nodes)
    plan = hr.ItemSampler(num_nodes, batch_size=3, seed=0).sample_neighbor(whole, [fanout, 2], expand=expand)
    for sampled, batch in zip(plan.loader(), plan.induce_subgraph(whole).loader(), strict=True):
        assert torch.equal(batch.n_id, sampled.n_id)
        found, ends = edges_of(batch, source, destination)
        assert torch.equal(found, ends)
        nodes = set(batch.n_id.tolist())
        inside = [place for place in range(len(source)) if {int(source[place]), int(destination[place])} <= nodes]
        assert sorted(batch.e_id.tolist()) == inside
        (block,) = batch.blocks
        assert block.num_src == block.num_dst == len(batch.n_id)
        assert batch.num_sampled_nodes == (batch.num_seeds, len(nodes) - batch.num_seeds)
        assert batch.num_sampled_edges == (len(inside),)


@given(edges=edge_lists(), fanout=st.integers(-1, 3), expand=st.sampled_from(["all", "new"]))
def test_bidirectional_is_every_sampled_edge_both_ways_once(edges, fanout, expand):
    source, destination, num_nodes = edges
    whole = hr.Graph.from_coo(source, destination, num_nodes=num_nodes)
    plan = hr.ItemSampler(num_nodes, batch_size=3, seed=0).sample_neighbor(whole, [fanout, 2], expand=expand)
    for sampled, batch in zip(plan.loader(), plan.make_bidirectional().loader(), strict=True):
        assert torch.equal(batch.n_id, sampled.n_id)
        picked = {(int(source[edge]), int(destination[edge])) for edge in sampled.e_id.tolist()}
        found, ends = edges_of(batch, source, destination)
        pairs = list(map(tuple, found.t().tolist()))
        assert len(set(pairs)) == len(pairs)
        assert set(pairs) == picked | {(v, u) for u, v in picked}
        for pair, edge in zip(pairs, ends.t().tolist(), strict=True):
            assert tuple(edge) == (pair if pair in picked else pair[::-1])
        assert set(batch.e_id.tolist()) <= set(sampled.e_id.tolist())
        local = list(zip(*batch.blocks[0].edge_index.flip(0).tolist(), strict=True))
        assert local == sorted(local), "by destination, then by source"


def test_edge_ids_are_optional():
    plan = items().sample_neighbor(graph(), [3], edge_ids=False)
    assert next(iter(plan.induce_subgraph(graph(), edge_ids=False).loader())).blocks[0].edge_ids is None
    assert next(iter(plan.make_bidirectional().loader())).blocks[0].edge_ids is None


def test_rows_of_nodes_stay():
    """Features of nodes that were fetched before are still theirs; those of edges are not."""
    fetched = items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])
    for plan in (fetched.induce_subgraph(graph()), fetched.make_bidirectional()):
        batch = next(iter(plan.loader()))
        assert torch.equal(batch.x, store().node["x"].read(batch.n_id).rows)
    edges = items().sample_neighbor(graph(), [3]).fetch_feature(store(), edge=["e"])
    with pytest.raises(hr.PlanError, match="edge features were fetched before"):
        edges.make_bidirectional().loader()


def test_subgraphs_of_a_reordered_graph():
    reordered = hr.reorder(graph(), store(), scores=torch.rand(200, generator=torch.Generator().manual_seed(2))).graph
    batch = next(iter(items().sample_neighbor(reordered, [-1]).induce_subgraph(reordered).loader()))
    plain = next(iter(items().sample_neighbor(graph(), [-1]).induce_subgraph(graph()).loader()))
    assert sorted(batch.e_id.tolist()) == sorted(plain.e_id.tolist())


def test_what_is_refused():
    plan = items().sample_neighbor(graph(), [3])
    with pytest.raises(hr.InputError, match=r"expected an hr\.Graph"):
        plan.induce_subgraph([1])
    with pytest.raises(hr.InputError, match="edge_ids to be True or False"):
        plan.induce_subgraph(graph(), edge_ids=1)
    with pytest.raises(hr.InputError, match="not a node of the graph"):
        plan.induce_subgraph(hr.Graph.from_coo([0], [1], num_nodes=2)).loader()
    with pytest.raises(hr.PlanError, match="cannot be cut into shares"):
        plan.induce_subgraph(graph()).loader(rank=0, world_size=2)
    with pytest.raises(hr.PlanError, match="make_bidirectional"):
        plan.make_bidirectional().explain(machine=hr.Machine(cores=2, world_size=2), cooperative=True)
    with pytest.raises(hr.PlanError, match="blocks, which no stage before it writes"):
        items().make_bidirectional().loader()


def test_ego_nets():
    """Each seed has one, repeats kept, with the edges among its nodes; it is the same whatever else is in the batch."""
    seeds = torch.tensor([3, 7, 3, 199])
    plan = hr.ItemSampler(seeds, batch_size=4, seed=5).sample_shadow(graph(), 2, 3)
    batch = next(iter(plan.loader()))
    (block,) = batch.blocks
    assert torch.equal(batch.n_id[:4], seeds)
    assert torch.equal(batch.slot[:4], torch.arange(4))
    source, destination = block.edge_index
    assert torch.equal(batch.slot[source], batch.slot[destination])
    for slot in range(4):
        nodes = batch.n_id[batch.slot == slot]
        assert len(nodes.unique()) == len(nodes)
        ends = torch.arange(graph().num_nodes).repeat_interleave(graph().in_degrees())
        wanted = graph().edge_ids[torch.isin(graph().indices, nodes) & torch.isin(ends, nodes)]
        assert torch.equal(block.edge_ids[batch.slot[destination] == slot].sort().values, wanted.sort().values)
    assert batch.n_id[batch.slot == 3].tolist() == [199], "a node without in-edges is its own ego net"


def test_ego_nets_of_graphs_with_types():
    """Each relation has the fanout, as the sampler that they are lowered to takes it."""
    nets = typed_items().sample_shadow(typed_graph(), 2, 3)
    chain = typed_items().sample_neighbor(typed_graph(), [3, 3], disjoint=True, expand="new")
    chain = chain.induce_subgraph(typed_graph())
    digests = [batch.digest() for batch in nets.loader()]
    assert digests == [batch.digest() for batch in chain.loader()]
    with pytest.raises(hr.InputError, match="edge_ids"):
        typed_items().sample_shadow(typed_graph(), 2, 3, edge_ids=False)


def test_a_subgraph_would_not_keep_to_times():
    timed = hr.Graph.from_coo([0, 1], [1, 2], num_nodes=3, edge_attrs={"time": [1, 2]})
    plan = hr.ItemSampler([2], time=[2]).sample_neighbor(timed, [1], time="time")
    with pytest.raises(hr.PlanError, match="expected a sampler without times"):
        plan.induce_subgraph(timed).loader()


def following(names, node_types):
    """Three nodes, the first two of one type, and an edge of each of two types between these."""
    return hr.Graph.from_coo([1, 0], [0, 1], num_nodes=3, node_types=node_types, edge_types=dict.fromkeys(names, 1))


@pytest.mark.parametrize(
    ("names", "node_types"),
    [
        ((("a", "to", "a"), ("a", "likes", "a")), {"a": 2, "b": 1}),
        (("to", "likes"), {"a": 3}),
        (("to", "likes"), None),
    ],
    ids=str,
)
def test_bidirectional_edges_keep_types_that_lead_to_themselves(names, node_types):
    """An edge of each type, each in both directions under its own: none stands for one of another type."""
    one = following(names, node_types)
    plan = hr.ItemSampler([0], seed=1).sample_neighbor(one, [1, 1], expand="new").make_bidirectional()
    (batch,) = plan.loader()
    (block,) = batch.blocks
    assert block.edge_ids.tolist() == block.edge_types.tolist() == [0, 1, 0, 1]
    assert block.edge_index.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    for number, name in enumerate(names if isinstance(names[0], tuple) else ()):
        relation = block.relation(name)
        assert relation.edge_index.tolist() == [[1, 0], [0, 1]]
        assert relation.edge_ids.tolist() == [number, number]


@pytest.mark.parametrize(
    ("names", "node_types", "name"),
    [
        ((("a", "to", "b"), ("b", "to", "a")), {"a": 1, "b": 2}, r"\('a', 'to', 'b'\)"),
        (("to", "likes"), {"a": 2, "b": 1}, "'to'"),
    ],
    ids=str,
)
def test_bidirectional_refuses_types_that_lead_to_others(names, node_types, name):
    """Turned around, such an edge would stand under a type that leads the other way, with features of its own."""
    edges = ([1, 0], [0, 1]) if isinstance(names[0], str) else ([0, 1], [1, 0])
    one = hr.Graph.from_coo(*edges, num_nodes=3, node_types=node_types, edge_types=dict.fromkeys(names, 1))
    plan = hr.ItemSampler([0], seed=1).sample_neighbor(one, [1]).make_bidirectional()
    with pytest.raises(hr.PlanError, match=f"lead from a node type to itself, got {name}.*subgraph_type"):
        plan.loader()
