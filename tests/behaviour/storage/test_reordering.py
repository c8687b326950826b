"""Graph and features in the order of a score: the vector of the paper, old ids outside, new ids outside."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ranks import edges

import headrace as hr

from plans import NUM_NODES, PLANS, graph, store
from strategies import edge_lists

SCORES = torch.rand(NUM_NODES, generator=torch.Generator().manual_seed(5))


def test_the_vector_of_the_paper():
    hot = hr.reorder(hr.Graph.from_coo([0, 1], [1, 2], num_nodes=4), scores=[0.1, 0.4, 0.2, 0.3])
    assert hot.rank.tolist() == [3, 0, 2, 1]
    assert hot.order.tolist() == [1, 3, 2, 0]
    assert hot.new_ids([0, 1]).tolist() == [3, 0]
    assert hot.old_ids(torch.tensor([[0], [3]])).tolist() == [[1], [0]]
    assert hot.store is None


@given(edge_lists(min_nodes=1), st.randoms(use_true_random=False), st.booleans())
def test_it_is_a_permutation_of_rows_and_columns(given_edges, random, original_ids):
    sparse = pytest.importorskip("scipy.sparse")
    num_nodes, num_edges = given_edges.num_nodes, given_edges.num_edges
    numbers = torch.arange(1, num_edges + 1)
    one = hr.Graph.from_coo(given_edges.src, given_edges.dst, num_nodes=num_nodes, edge_attrs={"number": numbers})
    order = random.sample(range(num_nodes), num_nodes)
    hot = hr.reorder(one, order=order, original_ids=original_ids)

    def matrix(of: hr.Graph) -> np.ndarray:
        dst = torch.repeat_interleave(torch.arange(num_nodes), of.in_degrees())
        entries = (of.edge_attrs_csc["number"].numpy(), (of.indices.numpy(), dst.numpy()))
        return sparse.coo_matrix(entries, shape=(num_nodes, num_nodes)).tocsr()

    permutation = sparse.coo_matrix((np.ones(num_nodes), (np.arange(num_nodes), order)), shape=(num_nodes, num_nodes))
    permuted = permutation @ matrix(one) @ permutation.T
    assert np.array_equal(permuted.toarray(), matrix(hot.graph).toarray())
    assert torch.equal(hot.graph.edge_attrs["number"], numbers)  # edges are still known as they were given
    assert hot.rank[hot.order].tolist() == list(range(num_nodes))


@pytest.mark.parametrize("name", ["full", "in_subgraph", "in_subgraph_new"])
@pytest.mark.parametrize("passes", [{}, {"fuse_sampling": False, "prefetch": False}])
def test_with_original_ids_batches_are_those_of_the_graph_as_it_was(name, passes):
    """Whole neighbourhoods: what is drawn at random is that of the graph's own ids."""
    hot = hr.reorder(graph(), store(), scores=SCORES)
    plan = PLANS[name]()
    again = _on(plan, hot.graph, hot.store)
    for old, new in zip(plan.loader(**passes), again.loader(**passes), strict=True):
        assert torch.equal(old.seeds, new.seeds)
        assert torch.equal(old.n_id.sort().values, new.n_id.sort().values)
        assert torch.equal(new.n_id[new.seed_index], new.seeds)
        for layer in range(len(old.blocks)):
            assert edges(old, layer) == edges(new, layer)
        assert new.node.keys() == old.node.keys()
        for key, rows in new.node.items():
            assert torch.equal(rows, store().node[key].read(new.n_id).rows)
        for rows, block in zip(new.edge.get("e", ()), new.blocks, strict=False):
            assert torch.equal(rows, store().edge["e"].read(block.edge_ids).rows)


def over_the_graph(name: str) -> bool:
    """Whether a plan samples the graph as it is, not by types, times of its own, or both ways, and adds no padding."""
    graphs = [stage.graph for stage in PLANS[name]().stages if hasattr(stage, "graph")]
    return (
        bool(graphs)
        and all(one is graph() for one in graphs)
        and not name.startswith(("neighbor_bidirectional", "bidirectional", "padded"))
    )


SAMPLERS = [name for name in PLANS if over_the_graph(name)]


def _on(plan: hr.Plan, one: hr.Graph, features: hr.FeatureStore | None) -> hr.Plan:
    """The plan over another graph and other features."""
    stages = []
    for stage in plan.stages:
        changed = {"graph": one} if hasattr(stage, "graph") else {"store": features} if hasattr(stage, "store") else {}
        stages.append(dataclasses.replace(stage, **changed))
    return hr.Plan(stages)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*nodes:UserWarning")
@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_gives_edges_of_the_graph_by_original_ids(name):
    hot = hr.reorder(graph(), store(), scores=SCORES)
    dst = torch.repeat_interleave(torch.arange(NUM_NODES), graph().in_degrees())
    there = set(zip(graph().indices.tolist(), dst.tolist(), strict=True))
    features = store().node["x"].read(torch.arange(NUM_NODES)).rows
    drawn = 0
    for batch in _on(PLANS[name](), hot.graph, hot.store).loader():
        assert torch.equal(batch.n_id[batch.seed_index], batch.seeds)
        if "x" in batch.node:
            assert torch.equal(batch.x, features[batch.n_id])
        if batch.y is not None and not name.startswith(("link", "hyper")):
            assert torch.equal(batch.y, batch.seeds % 5)
        if "pinsage" not in name:
            for layer in range(len(batch.blocks)):
                found = edges(batch, layer)
                assert {edge[:2] for edge in found} <= there
                drawn += len(found)
    assert drawn or "pinsage" in name


@pytest.mark.parametrize("name", ["neighbor", "labor", "ladies", "pinsage", "saint_node", "saint_walk"])
def test_both_ways_draw_the_same(name):
    """With original ids outside and with new ids everywhere: the same batches under other names."""
    inside = hr.reorder(graph(), store(), scores=SCORES)
    outside = hr.reorder(graph(), store(), scores=SCORES, original_ids=False)
    first = _on(PLANS[name](), inside.graph, inside.store)
    source, *stages = _on(PLANS[name](), outside.graph, outside.store).stages
    items = hr.ItemSampler(outside.items(torch.arange(0, NUM_NODES, 2)), batch_size=17, shuffle=True, seed=source.seed)
    for one, other in zip(first.loader(), hr.Plan([items, *stages]).loader(), strict=True):
        assert torch.equal(outside.new_ids(one.n_id), other.n_id)
        assert torch.equal(outside.new_ids(one.seeds), other.seeds)
        assert torch.equal(one.blocks[0].indices, other.blocks[0].indices)
        if one.node:
            assert one.node.keys() == other.node.keys()
            assert all(torch.equal(rows, other.node[key]) for key, rows in one.node.items())
        assert (one.y is None) == (other.y is None)
        assert one.y is None or torch.equal(one.y, other.y)


def test_items_of_every_spelling():
    hot = hr.reorder(graph(), scores=SCORES, original_ids=False)
    mask = torch.zeros(NUM_NODES, dtype=torch.bool)
    mask[[3, 100]] = True
    moved = hot.items(mask)
    assert moved.dtype == torch.bool
    assert torch.equal(moved.nonzero().squeeze(1), hot.rank[[3, 100]].sort().values)
    ids, labels = torch.tensor([7, 2]), torch.tensor([0, 1])
    assert torch.equal(hot.items(ids), hot.rank[ids])
    assert torch.equal(hot.items(3), hot.rank[:3])
    assert torch.equal(hot.items(range(9, 3, -2)), hot.rank[[9, 7, 5]])
    assert torch.equal(hot.items(ids.reshape(1, 2)), hot.rank[ids].reshape(1, 2))
    found = hot.items((ids, labels))
    assert torch.equal(found[0], hot.rank[ids])
    assert torch.equal(found[1], labels)
    found = hot.items((mask, labels))
    assert torch.equal(found[0], hot.rank[[3, 100]])
    assert hr.reorder(graph(), scores=SCORES).items(ids) is ids
    with pytest.raises(hr.InputError, match="expected a mask of 200 nodes, got one of 3"):
        hot.items(torch.ones(3, dtype=torch.bool))
    with pytest.raises(hr.InputError, match="expected ids from 0 to 199, got 2 to 200"):
        hot.items(torch.tensor([2, 200]))
    with pytest.raises(hr.InputError, match="expected integer ids"):
        hot.new_ids(mask)


def test_rows_in_memory_move_and_those_on_disk_stay(tmp_path):
    x = np.arange(2.0 * NUM_NODES).reshape(NUM_NODES, 2)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    features = hr.FeatureStore(node={"disk": mapped, "x": x})
    ids = torch.tensor([5, 0, 5, NUM_NODES - 1])
    for original_ids in (True, False):
        hot = hr.reorder(graph(), features, scores=SCORES, original_ids=original_ids)
        for name in ("disk", "x"):
            rows = hot.store.node[name].read(ids).rows
            assert np.array_equal(rows, x[ids if original_ids else hot.order[ids]])
        assert "bytes_from_disk" in hot.store.node["disk"].read(ids).counts
    inside = hr.reorder(graph(), features, scores=SCORES)
    assert inside.store.node["disk"] is features.node["disk"]
    assert inside.store.node["x"] is not features.node["x"]
    hottest = hr.reorder(graph(), features, scores=SCORES, original_ids=False).store.node["x"].read(torch.arange(3))
    assert np.array_equal(hottest.rows, x[SCORES.argsort(descending=True)[:3]])


def test_the_graph_keeps_its_names():
    hot = hr.reorder(graph(), scores=SCORES)
    assert torch.equal(hot.graph.node_ids, hot.order)
    assert copy.deepcopy(hot.graph) == hot.graph
    plain = graph().reordered(hot.order)
    assert plain != hot.graph
    assert plain.content_digest() != hot.graph.content_digest()
    assert torch.equal(hot.graph.untyped().node_ids, hot.order)
    assert "node_ids" in repr(hot.graph)
    assert "node_ids" not in repr(plain)
    back = hot.graph.reordered(hot.rank)
    assert back.node_ids.tolist() == list(range(NUM_NODES))
    assert torch.equal(back.indices, graph().indices)


@pytest.mark.parametrize("score", ["out_degree", "reverse_pagerank", "weighted_reverse_pagerank", "inclusion"])
def test_scores_of_a_reordered_graph_are_by_original_ids(score):
    hot = hr.reorder(graph(), scores=SCORES).graph

    def of(one: hr.Graph) -> torch.Tensor:
        if score == "inclusion":
            return hr.scores.inclusion(hr.ItemSampler(50, batch_size=5).sample_neighbor(one, [3, 2]))
        more = (50,) if score.startswith("weighted") else ()
        return getattr(hr.scores, score)(one, *more)

    assert torch.allclose(of(hot), of(graph()), rtol=1e-9)


def test_resume_is_a_seek_here_too():
    hot = hr.reorder(graph(), store(), scores=SCORES)
    plan = _on(PLANS["labor"](), hot.graph, hot.store)
    digests = [batch.digest() for batch in plan.loader()]
    loader = plan.loader()
    next(iter(loader))
    state, resumed = loader.state_dict(), plan.loader(num_threads=1)
    resumed.load_state_dict(state)
    assert [batch.digest() for batch in resumed] == digests[1:]


def test_ranks_and_partitions_take_new_ids_alone():
    hot = hr.reorder(graph(), scores=SCORES).graph
    owners = hr.Partition.hash(NUM_NODES, 2)
    advice = r"original_ids=False"
    with pytest.raises(hr.InputError, match=advice):
        hot.shard(owners, 0)
    with pytest.raises(hr.InputError, match=advice):
        owners.report(hot)
    with pytest.raises(hr.InputError, match=advice):
        hr.Partition.stream(hot, 2)
    with pytest.raises(hr.InputError, match=advice):
        hr.EdgePartition.grid(hot, 2)
    plan = hr.ItemSampler(20, batch_size=4, seed=0).sample_neighbor(hot, [2])
    with pytest.raises(hr.InputError, match="cooperative: sample_neighbor: .*" + advice):
        plan.loader(cooperative=True, comm=hr.testing.LocalGroup(2).comms[0])
