"""Layers of hr.nn beside DGL's of the same parameters: what `help(hr.nn)` says of where they differ."""

from __future__ import annotations

import dgl.nn
import pytest
import torch

import headrace as hr


def block_of(num_nodes=30, num_edges=150):
    src, dst = torch.randint(0, num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(0))
    graph = hr.Graph.from_coo(src, dst, num_nodes=num_nodes)
    (block,) = next(iter(hr.ItemSampler(torch.arange(20), batch_size=20).sample_neighbor(graph, [4]).loader())).blocks
    return block, torch.randn(block.num_src, 5, generator=torch.Generator().manual_seed(1))


def test_sage_and_gin_are_alike():
    block, x = block_of()
    ours, theirs = hr.nn.SAGEConv(5, 3), dgl.nn.SAGEConv(5, 3, "mean")
    theirs.fc_neigh.weight, theirs.fc_self.weight = ours.lin_l.weight, ours.lin_r.weight
    theirs.fc_self.bias = ours.lin_l.bias
    torch.testing.assert_close(ours(x, block), theirs(block.to_dgl(), x))
    linear = torch.nn.Linear(5, 3)
    ours, theirs = hr.nn.GINConv(linear, 0.3), dgl.nn.GINConv(linear, "sum", 0.3)
    torch.testing.assert_close(ours(x, block), theirs(block.to_dgl(), x))


def test_gat_is_alike_without_self_loops():
    block, x = block_of()
    ours = hr.nn.GATConv(5, 3, heads=2, add_self_loops=False)
    theirs = dgl.nn.GATConv(5, 3, 2, allow_zero_in_degree=True)
    theirs.fc.weight, theirs.attn_l, theirs.attn_r = ours.lin.weight, ours.att_src, ours.att_dst
    theirs.bias = torch.nn.Parameter(ours.bias.detach().view(-1))
    torch.testing.assert_close(ours(x, block), theirs(block.to_dgl(), x).flatten(1))
    looped = hr.nn.GATConv(5, 3, heads=2)
    looped.load_state_dict(ours.state_dict())
    assert not torch.allclose(looped(x, block), ours(x, block))
    alone = hr.Block(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int32), 1, 1)
    assert torch.equal(ours(x[:1], alone), ours.bias[None])
    with pytest.raises(dgl.DGLError, match="0-in-degree"):
        dgl.nn.GATConv(5, 3, 2)(alone.to_dgl(), x[:1])


def test_gcn_is_alike_by_weights_alone():
    block, x = block_of()
    weight = torch.rand(block.num_edges)
    ours, theirs = hr.nn.GCNConv(5, 3, normalize=False), dgl.nn.GraphConv(5, 3, norm="none", allow_zero_in_degree=True)
    theirs.weight, theirs.bias = torch.nn.Parameter(ours.lin.weight.detach().t()), ours.bias
    torch.testing.assert_close(ours(x, block, weight), theirs(block.to_dgl(), x, edge_weight=weight))
    both = dgl.nn.GraphConv(5, 3, norm="both", allow_zero_in_degree=True)
    both.weight, both.bias = theirs.weight, theirs.bias
    plain = hr.nn.GCNConv(5, 3, add_self_loops=False)
    plain.load_state_dict(ours.state_dict())
    assert not torch.allclose(plain(x, block), both(block.to_dgl(), x))


def test_importance_weights_count_unasked():
    block, x = block_of()
    weighted = hr.Block(block.indptr, block.indices, block.num_src, block.num_dst, weight=torch.rand(block.num_edges))
    layer = hr.nn.SAGEConv(5, 3)
    assert not torch.allclose(layer(x, weighted), layer(x, block))
    theirs = dgl.nn.SAGEConv(5, 3, "mean")
    assert torch.equal(theirs(weighted.to_dgl(), x), theirs(block.to_dgl(), x))
