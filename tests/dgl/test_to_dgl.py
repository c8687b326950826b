"""Batches as DGL's message-flow graphs."""

from __future__ import annotations

import json
import threading

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
            assert torch.equal(w, store.edge["w"].read(edge_ids).rows)


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
        store.node["x"].read(torch.arange(NUM_NODES)).rows,
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


def repeated_seeds():
    ids = torch.tensor([5, 3, 5, 9, 3])
    return ids, hr.ItemSampler((ids, 2 * ids))


@pytest.mark.parametrize("source", ["store", "items"])
def test_labels_are_rows_of_the_last_block(source):
    """One for each distinct seed, in order of first occurrence."""
    ids, labelled = repeated_seeds()
    _, _, graph, store = parts(node={"y": 2 * torch.arange(NUM_NODES)})
    plan = (labelled if source == "items" else hr.ItemSampler(ids)).sample_neighbor(graph, [3, 2])
    if source == "store":
        plan = plan.fetch_feature(store, labels="y")
    last = next(iter(plan.loader())).to_dgl()[-1]
    assert last.dstdata[dgl.NID].tolist() == [5, 3, 9]
    assert last.dstdata["y"].tolist() == [10, 6, 18]


def test_a_seed_with_two_labels_is_refused():
    *_, graph, _ = parts()
    batch = next(
        iter(hr.ItemSampler((torch.tensor([4, 4]), torch.tensor([0, 1]))).sample_neighbor(graph, [2]).loader())
    )
    with pytest.raises(hr.InputError, match="seed 4 comes twice with different labels"):
        batch.to_dgl()
    assert "y" not in batch.replace(y=None).to_dgl()[-1].dstdata


def stage_plan():
    _, _, graph, store = parts(**features())
    labelled = hr.ItemSampler((torch.arange(NUM_NODES), torch.arange(NUM_NODES) % 3), batch_size=7, shuffle=True)
    return labelled.sample_neighbor(graph, fanouts=[3, 2]).fetch_feature(store, node=["x"], edge=["w"])


def contents(blocks):
    """Edges and all features of the blocks."""
    return [
        {
            "edges": torch.stack(block.edges(order="eid")).tolist(),
            **{
                f"{side}/{name}": rows.tolist()
                for side, frame in (("src", block.srcdata), ("dst", block.dstdata), ("edge", block.edata))
                for name, rows in frame.items()
            },
        }
        for block in blocks
    ]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_the_stage_gives_what_the_method_gives(workers):
    expected = [contents(batch.to_dgl()) for batch in stage_plan().loader()]
    plan = stage_plan().to_dgl().prefetch(workers=workers)
    assert [contents(blocks) for blocks in plan.loader()] == expected
    assert [contents(blocks) for blocks in plan.copy_to("cpu").loader()] == expected


def test_the_stage_runs_in_the_background_and_counts(tmp_path):
    loader = stage_plan().to_dgl().prefetch().copy_to("cpu").loader(machine=hr.Machine(cores=2))
    batches = list(loader)
    stats = loader.stats()
    assert stats["to_dgl"]["converted_nodes"] == sum(blocks[0].num_src_nodes() for blocks in batches)
    assert stats["to_dgl"]["converted_edges"] == sum(block.num_edges() for blocks in batches for block in blocks)
    assert stats["copy_to"]["bytes"] > sum(blocks[0].srcdata["x"].numel() * 4 for blocks in batches)
    loader.profile(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    made = [event["tid"] for event in events if event["name"] == "to_dgl"]
    assert len(made) == len(batches)
    assert threading.get_ident() not in made


def test_the_stage_resumes_from_checkpoints_of_either_plan():
    expected = [contents(blocks) for blocks in stage_plan().to_dgl().loader()]
    for plan in (stage_plan(), stage_plan().to_dgl()):
        loader = plan.loader()
        next(iter(loader))
        resumed = stage_plan().to_dgl().loader()
        resumed.load_state_dict(loader.state_dict())
        assert [contents(blocks) for blocks in resumed] == expected[1:]


def test_what_blocks_cannot_hold_is_refused_when_the_loader_is_made():
    *_, graph, _ = parts()
    with pytest.raises(hr.PlanError, match="to_dgl: 2 hops share one block"):
        hr.ItemSampler(9).sample_neighbor(graph, [2, 2], expand="new").to_dgl().loader()
    with pytest.raises(hr.PlanError, match="to_dgl: expected seeds that are nodes or pairs, got 3 nodes that belong"):
        hr.ItemSampler(torch.tensor([[0, 1, 2]])).sample_neighbor(graph, [2]).to_dgl().loader()
    with pytest.raises(hr.PlanError, match="behind to_dgl a batch is an object of another library"):
        stage_plan().to_dgl().transform(lambda batch: batch).loader()
    assert len(next(iter(hr.ItemSampler(9).sample_neighbor(graph, [2], expand="new").to_dgl().loader()))) == 1
