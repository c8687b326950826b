"""Padded batches as DGL's blocks: sizes that batches share, and outputs of seeds as without padding."""

from __future__ import annotations

import torch
from dgl.nn import SAGEConv

from plans import graph, items, store


def test_blocks_have_two_shapes_and_the_same_outputs_and_labels_of_seeds():
    plan = items(batch_size=17).sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"], labels="y")
    torch.manual_seed(0)
    layer = SAGEConv(8, 8, "mean")
    shapes = set()
    for real, padded in zip(plan.to_dgl().loader(), plan.pad().to_dgl().loader(), strict=True):
        shapes.add(tuple((block.num_src_nodes(), block.num_dst_nodes(), block.num_edges()) for block in padded))
        outs = []
        for blocks in (real, padded):
            h = blocks[0].srcdata["x"]
            for block in blocks:
                h = layer(block, h)
            outs.append(h)
        mask = padded[-1].dstdata["pad_node_mask"]
        assert torch.allclose(outs[1][mask], outs[0], atol=1e-5)
        labels = padded[-1].dstdata["y"]
        assert torch.equal(labels[mask], real[-1].dstdata["y"])
        assert (labels[~mask] == -100).all()
    assert len(shapes) == 2
