"""Batches as DGL's message-flow graphs."""

from __future__ import annotations

import dgl
import pytest
import torch
from dgl.nn import GraphConv, SAGEConv

import headrace as hr

NUM_NODES = 60


def parts(**store):
    src, dst = torch.randint(0, NUM_NODES, (2, 300), generator=torch.Generator().manual_seed(0))
    return src, dst, hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES), hr.FeatureStore(**store)


def features():
    generator = torch.Generator().manual_seed(1)
    return {
        "node": {"x": torch.randn(NUM_NODES, 4, generator=generator)},
        "edge": {"w": torch.rand(300, generator=generator)},
    }


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_layer_neighbor"])
def test_ids_lead_back_to_the_graph(verb):
    src, dst, graph, store = parts(**features())
    plan = getattr(hr.ItemSampler(NUM_NODES, batch_size=7, shuffle=True), verb)(graph, fanouts=[3, 2])
    for batch in plan.fetch_feature(store, node=["x"], edge=["w"]).loader():
        blocks = batch.to_dgl()
        assert len(blocks) == 2
        assert torch.equal(blocks[-1].dstdata[dgl.NID], batch.seeds)
        assert torch.equal(blocks[0].dstdata[dgl.NID], blocks[1].srcdata[dgl.NID])
        assert torch.equal(blocks[0].srcdata["x"], batch.x)
        for block, ours, w in zip(blocks, batch.blocks, batch.edge["w"], strict=True):
            assert block.is_block
            assert (block.num_src_nodes(), block.num_dst_nodes()) == (ours.num_src, ours.num_dst)
            u, v = block.edges(order="eid")
            edge_ids = block.edata[dgl.EID]
            assert torch.equal(block.srcdata[dgl.NID][u], src[edge_ids])
            assert torch.equal(block.dstdata[dgl.NID][v], dst[edge_ids])
            # DGL's promise, which its layers rely on: destinations come first among the sources.
            assert torch.equal(block.srcdata[dgl.NID][: ours.num_dst], block.dstdata[dgl.NID])
            assert torch.equal(block.edata["w"], w)
            assert torch.equal(w, store.edge["w"].read(edge_ids))


def test_full_neighbourhoods_reproduce_the_whole_graph():
    src, dst, graph, store = parts(**features())
    torch.manual_seed(0)
    first, second = SAGEConv(4, 4, "mean"), SAGEConv(4, 4, "mean")
    whole, x = dgl.graph((src, dst), num_nodes=NUM_NODES), features()["node"]["x"]
    expected = second(whole, first(whole, x).relu())
    plan = hr.ItemSampler(NUM_NODES, batch_size=7).sample_neighbor(graph, fanouts=[-1, -1])
    for batch in plan.fetch_feature(store, node=["x"]).loader():
        blocks = batch.to_dgl()
        out = second(blocks[1], first(blocks[0], batch.x).relu())
        torch.testing.assert_close(out, expected[batch.seeds], atol=1e-5, rtol=1e-5)


def test_edge_weights_reach_the_layer():
    src, dst, graph, store = parts(**features())
    torch.manual_seed(0)
    layer = GraphConv(4, 4, norm="none", allow_zero_in_degree=True)
    expected = layer(
        dgl.graph((src, dst), num_nodes=NUM_NODES),
        store.node["x"].read(torch.arange(NUM_NODES)),
        edge_weight=features()["edge"]["w"],
    )
    batch = next(
        iter(hr.ItemSampler(9).sample_neighbor(graph, [-1]).fetch_feature(store, node=["x"], edge=["w"]).loader())
    )
    (block,) = batch.to_dgl()
    torch.testing.assert_close(layer(block, batch.x, edge_weight=block.edata["w"]), expected[:9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_edge_features_are_summed(dtype):
    """In single precision by another kernel of DGL, which wants the ids of edges."""
    *_, graph, _ = parts()
    (ours,) = next(iter(hr.ItemSampler(9).sample_neighbor(graph, [3]).loader())).blocks
    block = ours.to_dgl()
    block.edata["w"] = torch.arange(ours.num_edges, dtype=dtype)
    block.update_all(dgl.function.copy_e("w", "m"), dgl.function.sum("m", "total"))
    expected = torch.zeros(ours.num_dst, dtype=dtype).index_add(0, ours.edge_index[1], block.edata["w"])
    assert torch.equal(block.dstdata["total"], expected)


def test_one_shared_block_is_refused():
    *_, graph, _ = parts()
    batch = next(iter(hr.ItemSampler(9).sample_neighbor(graph, [2, 2], expand="new").loader()))
    with pytest.raises(hr.InputError, match='expand="all"'):
        batch.to_dgl()


def test_empty_blocks_and_importance_weights():
    graph = hr.Graph.from_coo([], [], num_nodes=3)
    (block,) = next(iter(hr.ItemSampler(3).sample_neighbor(graph, [2]).loader())).to_dgl()
    assert block.num_edges() == 0
    weighted = hr.Block(torch.tensor([0, 1]), torch.tensor([1], dtype=torch.int32), 2, 1, weight=torch.tensor([2.0]))
    assert weighted.to_dgl().edata["importance_weight"].tolist() == [2.0]
