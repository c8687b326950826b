"""Every layer of hr.nn, and a block with a hub of more in-edges than half precision counts to."""

from __future__ import annotations

import torch
from torch import nn

import headrace as hr

WIDTH, IN_EDGES = 8, 600

LAYERS = {
    "SAGE": lambda: hr.nn.SAGEConv(WIDTH, WIDTH),
    "SAGE max": lambda: hr.nn.SAGEConv(WIDTH, WIDTH, "max"),
    "GCN": lambda: hr.nn.GCNConv(WIDTH, WIDTH),
    "GCN narrow": lambda: hr.nn.GCNConv(WIDTH, 4),
    "GAT": lambda: hr.nn.GATConv(WIDTH, 4, 2),
    "GAT without loops": lambda: hr.nn.GATConv(WIDTH, 4, 2, add_self_loops=False),
    "GAT of edges": lambda: hr.nn.GATConv(WIDTH, 4, 2, edge_dim=3),
    "GIN": lambda: hr.nn.GINConv(nn.Linear(WIDTH, WIDTH)),
    "Cluster-GCN": lambda: hr.nn.ClusterGCNConv(WIDTH, WIDTH),
}


def block(weighted: bool = False) -> hr.Block:
    """A hub of more in-edges than bfloat16 counts to, and two nodes of a few."""
    generator = torch.Generator().manual_seed(1)
    indptr = torch.tensor([0, IN_EDGES, IN_EDGES + 3, IN_EDGES + 3])
    indices = torch.randint(0, 700, (int(indptr[-1]),), generator=generator)
    weight = torch.rand(len(indices), generator=generator) + 0.1 if weighted else None
    return hr.Block(indptr, indices, 700, 3, weight=weight)


def drawn(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
