"""Attributes of edges, in the order of the input and in that of the CSC."""

from __future__ import annotations

import torch

import headrace as hr
from headrace.ops import _native

# What torch has, but writes to no places.
UNSIGNED = [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]


def test_edge_attributes_of_many_pieces(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.data.edge_attrs.PIECE", 7)
    src, dst = torch.randint(0, 5, (2, 100), generator=torch.Generator().manual_seed(0))
    rows = torch.rand(100, 2)
    graph = hr.Graph.from_coo(src, dst, num_nodes=5, edge_attrs={"w": rows})
    assert graph.edge_permutation is not None
    assert torch.equal(graph.edge_attrs["w"], rows)


def test_edge_weights_are_looked_at_once(monkeypatch):
    looked_at = []
    check = _native.check_weights
    monkeypatch.setattr(_native, "check_weights", lambda *arguments: looked_at.append(check(*arguments)))
    graph = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": torch.ones(3), "v": torch.ones(3)})
    for name in ("w", "v"):
        plans = [
            hr.ItemSampler(3).sample_neighbor(graph, [2, 2], weight=name),
            hr.ItemSampler(3).sample_layer_neighbor(graph, [2], weight=name),
            hr.ItemSampler(3).sample_ladies(graph, [2], weight=name),
            hr.ItemSampler(3).sample_pinsage(graph, 2, 2, 2, weight=name),
        ]
        for plan in plans:
            for fuse in (True, False):
                assert len(list(plan.loader(fuse_sampling=fuse))) == 1
    assert len(looked_at) == 2
