"""Graphs in another order: the same edges under other ids, and ranges for owners."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import cooperative_batches, edges, partition

import headrace as hr

from plans import NUM_NODES, graph, store
from strategies import edge_lists


@given(st.data())
def test_edges_keep_their_ids_and_attributes(data):
    given_edges = data.draw(edge_lists(min_nodes=1))
    num_nodes, num_edges = given_edges.num_nodes, given_edges.num_edges
    order = torch.tensor(data.draw(st.permutations(range(num_nodes))))
    whole = hr.Graph.from_coo(
        given_edges.src,
        given_edges.dst,
        num_nodes=num_nodes,
        edge_attrs={"number": torch.arange(num_edges), "pair": torch.rand(num_edges, 2)},
        edge_types={"likes": num_edges},
    )
    found = whole.reordered(order)
    assert found.edge_types == whole.edge_types
    assert torch.equal(found.edge_attrs_csc["number"], found.edge_ids.long())
    assert torch.equal(found.edge_attrs["number"], torch.arange(num_edges))
    dst = torch.repeat_interleave(torch.arange(num_nodes), found.in_degrees())
    assert torch.equal(order[found.indices.long()], given_edges.src.long()[found.edge_ids.long()])
    assert torch.equal(order[dst], given_edges.dst.long()[found.edge_ids.long()])
    for v, old in enumerate(order.tolist()):
        row, before = (slice(*one.indptr[i : i + 2].tolist()) for one, i in ((found, v), (whole, old)))
        assert torch.equal(found.edge_ids[row], whole.edge_ids[before])
        assert torch.equal(found.edge_attrs_csc["pair"][row], whole.edge_attrs_csc["pair"][before])
    back = found.reordered(order.argsort())
    assert torch.equal(back.indptr, whole.indptr)
    assert torch.equal(back.indices, whole.indices)
    assert torch.equal(back.edge_ids.long(), whole.edge_ids.long())


@pytest.mark.parametrize("kind", ["hash", "table", "metis"])
def test_ranges_of_a_reordered_graph_find_the_same_union(kind):
    """Whole neighbourhoods, since random picks are those of ids; the batches are the same under the old names."""
    if kind == "metis":
        pytest.importorskip("pymetis")
    owners = partition(kind, 3)
    order = owners.order()
    new_id = order.argsort()
    x = store().node["x"].read(torch.arange(NUM_NODES)).rows

    def plan(one: hr.Graph, train_ids: torch.Tensor, rows: torch.Tensor) -> hr.Plan:
        seeds = hr.ItemSampler(train_ids, batch_size=40, shuffle=True, seed=3)
        return seeds.sample_neighbor(one, [-1, -1]).fetch_feature(hr.FeatureStore(node={"x": rows}), node=["x"])

    train_ids = torch.arange(0, NUM_NODES, 2)
    before = cooperative_batches(plan(graph(), train_ids, x), 3, partition=owners)
    reordered = plan(graph().reordered(order), new_id[train_ids], x[order])
    after = cooperative_batches(reordered, 3, partition=owners.ranges())
    for rank in range(3):
        for old, new in zip(before[rank], after[rank], strict=True):
            assert torch.equal(order[new.seeds], old.seeds)
            assert torch.equal(order[new.n_id].sort().values, old.n_id.sort().values)
            assert torch.equal(x[order[new.n_id]], new.x)
            for layer in range(2):
                renamed = [(int(order[u]), int(order[v]), *more) for u, v, *more in edges(new, layer)]
                assert sorted(renamed) == edges(old, layer)


def test_what_cannot_be_reordered_is_refused():
    order = torch.arange(NUM_NODES)
    with pytest.raises(hr.InputError, match="this is part 1 of a graph; reorder the whole graph"):
        graph().shard(partition("hash", 2), 1).reordered(order)
    typed = hr.Graph.from_coo([0], [1], num_nodes=3, node_types={"user": 2, "item": 1})
    with pytest.raises(hr.InputError, match="with node types cannot be reordered"):
        typed.reordered([2, 1, 0])
    for wrong in (order[1:], order.clone().fill_(3), order.double()):
        with pytest.raises(hr.InputError, match="order"):
            graph().reordered(wrong)


def test_an_order_that_changes_nothing():
    assert graph().reordered(torch.arange(NUM_NODES)) == graph()
