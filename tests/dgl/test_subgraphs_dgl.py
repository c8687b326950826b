"""Subgraphs of a batch's nodes as DGL's blocks: one square block for all layers of a model."""

from __future__ import annotations

import dgl
import pytest
import torch
from dgl.nn import SAGEConv

import headrace as hr

from plans import PLANS, graph, store, typed_graph

IDS = torch.tensor([5, 3, 9, 3, 40])


def square_plans():
    items = hr.ItemSampler((IDS, 2 * IDS), batch_size=5)
    hops = {"fanouts": [3, 2], "expand": "new"}
    return {
        "shadow": items.sample_shadow(graph(), depth=2, fanout=3),
        "induced": items.sample_neighbor(graph(), **hops).induce_subgraph(graph()),
        "induced in trees": items.sample_neighbor(graph(), **hops, disjoint=True).induce_subgraph(graph()),
        "bidirectional": items.sample_neighbor(graph(), **hops).make_bidirectional(),
    }


@pytest.mark.parametrize("name", square_plans())
@pytest.mark.parametrize("passes", [{}, {"fuse_sampling": False}], ids=["fused", "unfused"])
def test_the_stage_takes_square_blocks(name, passes):
    plan = square_plans()[name].fetch_feature(store(), node=["x"])
    batch = next(iter(plan.loader(**passes)))
    (block,) = next(iter(plan.to_dgl().loader(**passes)))
    assert block.num_src_nodes() == block.num_dst_nodes() == len(batch.n_id)
    assert torch.equal(block.srcdata[dgl.NID], batch.n_id)
    seeds = block.dstdata[dgl.NID][block.dstdata["is_seed"]]
    assert seeds.tolist() == ([5, 3, 9, 3, 40] if batch.slot is not None else [5, 3, 9, 40])
    labels = block.dstdata["y"]
    assert torch.equal(labels[block.dstdata["is_seed"]], 2 * seeds)
    assert (labels[~block.dstdata["is_seed"]] == -100).all()
    torch.manual_seed(0)
    layer = SAGEConv(8, 8, "mean")
    out = layer(block, layer(block, block.srcdata["x"]))  # as many layers as one likes
    ours = batch.blocks[0].edge_index
    mean = torch.zeros(len(batch.n_id), 8).index_add(0, ours[1], batch.x[ours[0]])
    mean = mean / torch.bincount(ours[1], minlength=len(mean)).clamp(min=1)[:, None]
    first = layer.fc_self(batch.x) + layer.fc_neigh(mean)
    assert torch.allclose(layer(block, block.srcdata["x"]), first, atol=1e-5)
    assert out.shape == (len(batch.n_id), 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool])
def test_labels_of_nodes_that_are_no_seeds(dtype):
    labels = torch.ones(len(IDS), 2).to(dtype)
    (batch,) = hr.ItemSampler((IDS, labels), batch_size=5).sample_shadow(graph(), 1, 3).loader()
    if dtype == torch.bool:
        with pytest.raises(hr.InputError, match=r"a dtype that has nan or -100 for a node without one.*got torch.bool"):
            batch.to_dgl()
        return
    (block,) = batch.to_dgl()
    others = block.dstdata["y"][~block.dstdata["is_seed"]]
    assert len(others)
    assert bool(others.isnan().all() if dtype.is_floating_point else (others == -100).all())


def test_of_several_types():
    ids = {"a": torch.tensor([4, 2]), "b": torch.tensor([7])}
    (batch,) = (
        hr.ItemSampler((ids, {name: 3 * one for name, one in ids.items()}), batch_size=3)
        .sample_shadow(typed_graph(), 2, 2)
        .loader()
    )
    (block,) = batch.to_dgl()
    for name, expected in ids.items():
        data = block.dstnodes[name].data
        assert data[dgl.NID][data["is_seed"]].tolist() == expected.tolist()
        assert data["y"][data["is_seed"]].tolist() == (3 * expected).tolist()
        assert (data["y"][~data["is_seed"]] == -100).all()


def convertible():
    """Plans whose batches `MiniBatch.to_dgl` takes, of seeds whose edge type is known where they are pairs."""
    for name, make in PLANS.items():
        batch = next(iter(make().loader()))
        try:
            blocks = batch.to_dgl(pairs=batch.seeds.ndim == 2)
        except hr.InputError:
            continue
        if blocks:
            yield name


def frames(converted):
    """All that is in a batch as DGL has it."""
    if isinstance(converted, (list, tuple)):
        return [frames(one) for one in converted]
    if isinstance(converted, torch.Tensor):
        return converted.tolist()
    if isinstance(converted, dict):
        return {name: ids.tolist() for name, ids in converted.items()}
    ends = [torch.stack(converted.edges(etype=name, order="eid")).tolist() for name in converted.canonical_etypes]
    columns = [(frame[name]) for frame in (converted.srcdata, converted.dstdata) for name in sorted(frame)]
    return ends, [str(column) for column in columns]


def test_the_stage_takes_all_that_the_method_takes():
    names = list(convertible())
    assert len(names) > len(PLANS) // 2
    for name in names:
        expected = [frames(batch.to_dgl(pairs=batch.seeds.ndim == 2)) for batch in PLANS[name]().loader()]
        assert [frames(one) for one in PLANS[name]().to_dgl().loader()] == expected, name
