"""Padded batches as DGL's blocks: sizes that batches share, and outputs of seeds as without padding."""

from __future__ import annotations

import dgl
import torch
from dgl.nn import SAGEConv

from plans import RELATIONS, fetch_typed, graph, items, store, typed_graph, typed_items


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


def test_blocks_of_types_have_two_shapes_and_the_same_real_edges():
    plan = fetch_typed(typed_items(batch_size=17).sample_neighbor(typed_graph(), [3, 2]))
    shapes = set()
    for real, padded in zip(plan.to_dgl().loader(), plan.pad().to_dgl().loader(), strict=True):
        shapes.add(
            tuple((block.num_nodes(kind), *map(block.num_edges, RELATIONS)) for block in padded for kind in "ab")
        )
        for whole, block in zip(real, padded, strict=True):
            for kind in ("a", "b", "lonely"):
                mask = block.srcnodes[kind].data["pad_node_mask"]
                assert torch.equal(block.srcnodes[kind].data[dgl.NID][mask], whole.srcnodes[kind].data[dgl.NID])
                assert (block.srcnodes[kind].data[dgl.NID][~mask] == -1).all()
            for relation in RELATIONS:
                ids = block.edges[relation].data[dgl.EID]
                assert torch.equal(ids[ids >= 0], whole.edges[relation].data[dgl.EID])
                src, _ = block.edges(etype=relation)
                assert torch.equal(block.srcnodes[relation[0]].data["pad_node_mask"][src], ids >= 0)
        first, whole = padded[0].srcnodes["a"].data, real[0].srcnodes["a"].data
        assert torch.equal(first["x"][first["pad_node_mask"]], whole["x"])
        labels, mask = padded[-1].dstnodes["a"].data["y"], padded[-1].dstnodes["a"].data["pad_node_mask"]
        assert torch.equal(labels[mask], real[-1].dstnodes["a"].data["y"])
        assert (labels[~mask] == -100).all()
    assert len(shapes) == 2
