"""Cluster-GCN's layer against PyG's of the same parameters, on square blocks, where both say the same."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import NUM_NODES, graph

pyg = pytest.importorskip("torch_geometric.nn")


@pytest.mark.parametrize("diag_lambda", [0.0, 0.3])
@pytest.mark.parametrize("source", [hr.GlobalBatch(graph()), hr.ClusterSampler(hr.Partition.hash(NUM_NODES, 4), 2)])
def test_it_computes_what_pyg_does(source, diag_lambda):
    torch.manual_seed(0)
    ours = hr.nn.ClusterGCNConv(5, 3, diag_lambda).double()
    theirs = pyg.ClusterGCNConv(5, 3, diag_lambda).double()
    theirs.load_state_dict(ours.state_dict())
    for batch in source.sample_in_subgraph(graph()).loader():
        (block,) = batch.blocks
        x = torch.randn(block.num_src, 5, dtype=torch.float64, requires_grad=True)
        out, expected = ours(x, block), theirs(x, block.edge_index)
        assert torch.allclose(out, expected, atol=1e-6)  # its degrees are of float32
        factors = torch.randn_like(out)
        (found,) = torch.autograd.grad((out * factors).sum(), x)
        (wanted,) = torch.autograd.grad((expected * factors).sum(), x)
        assert torch.allclose(found, wanted, atol=1e-6)
