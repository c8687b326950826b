"""Classes of headrace.pyg that are put in the place of PyG's, under a library that cannot be edited."""

from __future__ import annotations

import sys

import pytest
import torch
import torch_geometric.loader
import torch_geometric.sampler

import headrace.pyg

MAKE = {
    "NeighborLoader": lambda loaders, data: loaders.NeighborLoader(data, [3, 2], batch_size=50),
    "LinkNeighborLoader": lambda loaders, data: loaders.LinkNeighborLoader(
        data, [3, 2], edge_label_index=data.edge_index, batch_size=50
    ),
    "ClusterLoader": lambda loaders, data: loaders.ClusterLoader(loaders.ClusterData(data, 4, log=False), batch_size=2),
    "ShaDowKHopSampler": lambda loaders, data: loaders.ShaDowKHopSampler(data, 2, 3, batch_size=50),
    "GraphSAINTNodeSampler": lambda loaders, data: loaders.GraphSAINTNodeSampler(data, 20, 2),
    "GraphSAINTEdgeSampler": lambda loaders, data: loaders.GraphSAINTEdgeSampler(data, 20, 2),
    "GraphSAINTRandomWalkSampler": lambda loaders, data: loaders.GraphSAINTRandomWalkSampler(data, 20, 2, 2),
    "NeighborSampler": lambda loaders, data: loaders.NodeLoader(
        data, torch_geometric.sampler.NeighborSampler(data, [3, 2]), batch_size=50
    ),
}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.filterwarnings("ignore:ClusterData. pymetis")
def test_loaders_work_in_the_place_of_those_of_pyg(data, monkeypatch, name):
    ours = {one: getattr(headrace.pyg, one) for one in headrace.pyg.__all__ if hasattr(torch_geometric.loader, one)}
    for one, loader in ours.items():
        defined_in = sys.modules[getattr(torch_geometric.loader, one).__module__]
        for module in (torch_geometric.loader, defined_in):
            monkeypatch.setattr(module, one, loader)
    monkeypatch.setattr(torch_geometric.sampler, "NeighborSampler", headrace.pyg.Sampler)
    loader = MAKE[name](torch_geometric.loader, data)
    assert name not in ours or type(loader) is ours[name]
    assert sum(batch.num_nodes for batch in loader) > 0
    assert all(torch.equal(batch.x, data.x[batch.n_id]) for batch in loader if "n_id" in batch)
