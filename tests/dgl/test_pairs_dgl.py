"""Batches of pairs as DGL's loaders of edges give them: the inputs, graphs of the pairs, and the blocks."""

from __future__ import annotations

import dgl
import pytest
import torch
from dgl.nn import SAGEConv

import headrace as hr

from plans import typed_graph

NUM_NODES, NUM_EDGES = 60, 300
LIKES, TO_B, BACK = ("a", "likes", "a"), ("a", "to", "b"), ("b", "to", "a")


def parts():
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(0, NUM_NODES, (2, NUM_EDGES), generator=generator)
    x = torch.randn(NUM_NODES, 4, generator=generator)
    return src, dst, hr.Graph.from_coo(src, dst, num_nodes=NUM_NODES), hr.FeatureStore(node={"x": x}), x


def ends_of(graph):
    """The pairs of a graph of pairs, as the graph that was sampled calls their nodes."""
    return torch.stack([graph.ndata[dgl.NID][ends] for ends in graph.edges(order="eid")], 1)


def positives():
    src, dst, *_ = parts()
    return torch.stack([src, dst], 1)[::7].contiguous()


def plan(mode, **items):
    *_, graph, store, _ = parts()
    sampler = hr.ItemSampler(items.pop("items", positives()), batch_size=9, shuffle=True, seed=1, **items)
    if mode is not None:
        sampler = sampler.sample_uniform_negative(graph, ratio=2, mode=mode)
    return sampler.sample_neighbor(graph, [-1, -1]).fetch_feature(store, node=["x"])


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_the_graphs_have_the_pairs_of_the_batch(mode):
    seen = []
    for batch, converted in zip(plan(mode).loader(), plan(mode).to_dgl().loader(), strict=True):
        inputs, *graphs, blocks = converted
        positive = graphs[0]
        assert len(graphs) == (1 if mode is None else 2)
        assert torch.equal(inputs, blocks[0].srcdata[dgl.NID])
        num_positives = batch.num_seeds if mode is None else batch.num_positives
        assert torch.equal(ends_of(positive), batch.seeds[:num_positives, :2])
        assert torch.equal(ends_of(positive), positives()[positive.edata["item_index"]])
        seen += positive.edata["item_index"].tolist()
        for graph in graphs:
            assert torch.equal(graph.ndata[dgl.NID], blocks[-1].dstdata[dgl.NID])
        if mode == "binary":
            assert torch.equal(ends_of(graphs[1]), batch.seeds[num_positives:])
            assert [graph.edata["y"].unique().tolist() for graph in graphs] == [[1.0], [0.0]]
        elif mode == "triplet":
            sources = batch.seeds[:, :1].expand(-1, 2).flatten()
            assert torch.equal(ends_of(graphs[1]), torch.stack([sources, batch.seeds[:, 2:].flatten()], 1))
            assert not graphs[1].edata
    assert sorted(seen) == list(range(len(positives())))


@pytest.mark.filterwarnings("ignore:Dataloader CPU affinity:dgl.base.DGLWarning")
def test_a_model_gives_pairs_the_scores_of_the_whole_graph():
    """And the positive ones those that it gives them behind DGL's own loader."""
    src, dst, *_, x = parts()
    whole = dgl.graph((src, dst), num_nodes=NUM_NODES)
    torch.manual_seed(0)
    first, second = SAGEConv(4, 4, "mean"), SAGEConv(4, 4, "mean")

    def scores(graph, h):
        with graph.local_scope():
            graph.ndata["h"] = h
            graph.apply_edges(dgl.function.u_dot_v("h", "h", "score"))
            return graph.edata["score"].squeeze(1)

    def model(blocks, x):
        return second(blocks[1], first(blocks[0], x).relu())

    with torch.no_grad():
        every = second(whole, first(whole, x).relu())
        for _, positive, negative, blocks in plan("binary").to_dgl().loader():
            h = model(blocks, blocks[0].srcdata["x"])
            for graph in (positive, negative):
                ends = ends_of(graph)
                expected = (every[ends[:, 0]] * every[ends[:, 1]]).sum(1)
                torch.testing.assert_close(scores(graph, h), expected, atol=1e-5, rtol=1e-5)
        sampler = dgl.dataloading.as_edge_prediction_sampler(dgl.dataloading.MultiLayerFullNeighborSampler(2))
        theirs = dgl.dataloading.DataLoader(whole, torch.arange(NUM_EDGES)[::7], sampler, batch_size=9)
        ordered = plan(None).stages[0]
        ours = hr.ItemSampler(ordered.items, batch_size=9).sample_neighbor(parts()[2], [-1, -1])
        for one, other in zip(ours.to_dgl().loader(), theirs, strict=True):
            found = [scores(pairs, model(blocks, x[inputs])) for inputs, pairs, blocks in (one, other)]
            torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


def test_times_and_labels_are_on_the_pairs():
    labels = torch.arange(len(positives())) % 3
    timed = plan("binary", items=(positives(), labels), time=torch.arange(len(positives())))
    _, positive, negative, _ = next(iter(timed.to_dgl().loader()))
    items = positive.edata["item_index"]
    assert torch.equal(positive.edata["seed_time"], items)
    assert torch.equal(negative.edata["seed_time"], items.repeat_interleave(2))
    assert torch.equal(positive.edata["y"], labels[items] + 1)
    assert not negative.edata["y"].any()


@pytest.mark.parametrize("mode", [None, "binary"])
def test_of_several_types(mode):
    pairs = {
        LIKES: torch.stack([torch.arange(20), torch.arange(20) * 3 % 120], 1),
        TO_B: torch.stack([torch.arange(15) * 7 % 120, torch.arange(15) % 70], 1),
    }
    typed = hr.ItemSampler(pairs, batch_size=9, shuffle=True, seed=4)
    if mode is not None:
        typed = typed.sample_uniform_negative(typed_graph())
    every, seen = torch.cat(list(pairs.values())), []
    for inputs, *graphs, blocks in typed.sample_neighbor(typed_graph(), [2, 2]).to_dgl().copy_to("cpu").loader():
        assert {name: ids.tolist() for name, ids in inputs.items()} == {
            name: blocks[0].srcnodes[name].data[dgl.NID].tolist() for name in typed_graph().node_types.names
        }
        for graph in graphs:
            assert set(graph.canonical_etypes) == set(blocks[-1].canonical_etypes)
            assert graph.num_edges(BACK) == 0
            for name in typed_graph().node_types.names:
                assert torch.equal(graph.nodes[name].data[dgl.NID], blocks[-1].dstnodes[name].data[dgl.NID])
        assert len({graph.num_edges() for graph in graphs}) == 1
        for name in pairs:
            src, dst = graphs[0].edges(etype=name, order="eid")
            ends = [graphs[0].nodes[name[end]].data[dgl.NID][rows] for end, rows in ((0, src), (2, dst))]
            items = graphs[0].edges[name].data["item_index"]
            assert torch.equal(torch.stack(ends, 1), every[items])
            seen += items.tolist()
            if mode is not None:  # the source of each stays
                assert torch.equal(graphs[1].edges(etype=name, order="eid")[0], src)
    assert sorted(seen) == list(range(35))


def test_the_stage_gives_what_the_method_gives():
    def contents(converted):
        inputs, *graphs, blocks = converted
        return inputs.tolist(), [ends_of(graph).tolist() for graph in graphs], [block.num_edges() for block in blocks]

    expected = [contents(batch.to_dgl(pairs=True)) for batch in plan("binary").loader()]
    staged = plan("binary").to_dgl()
    assert [contents(one) for one in staged.prefetch(workers=2).loader()] == expected
    assert [contents(one) for one in staged.copy_to("cpu").loader()] == expected
    blocks = next(iter(plan("binary").loader())).to_dgl()
    assert isinstance(blocks, list)
    assert all(block.is_block for block in blocks)


def test_what_are_no_pairs_is_refused():
    *_, graph, _, _ = parts()
    nodes = next(iter(hr.ItemSampler(9).sample_neighbor(graph, [2]).loader()))
    with pytest.raises(hr.InputError, match="expected seeds that are pairs for pairs=True, got nodes"):
        nodes.to_dgl(pairs=True)
    triples = next(iter(hr.ItemSampler(torch.arange(9).view(3, 3)).sample_neighbor(graph, [2]).loader()))
    with pytest.raises(hr.InputError, match="got 3 nodes that belong together"):
        triples.to_dgl(pairs=True)
    with pytest.raises(hr.InputError, match="expected a batch with blocks"):
        next(iter(hr.ItemSampler(torch.tensor([[0, 1]])).loader())).to_dgl(pairs=True)
    untold = hr.ItemSampler(torch.tensor([[0, 1]])).sample_neighbor(typed_graph(), [2])
    with pytest.raises(hr.PlanError, match="expected pairs with an edge type"):
        untold.to_dgl().loader()
    with pytest.raises(hr.InputError, match="expected pairs with an edge type"):
        next(iter(untold.loader())).to_dgl(pairs=True)
