"""Graphs for tests of GraphSAINT: a ring with hubs, and one with nodes that are never drawn."""

from __future__ import annotations

import torch

import headrace as hr

NUM_NODES = 60


def ring():
    """A new graph of 60 nodes with in- and out-edges each, hubs, and edge i of the input from src[i] to dst[i]."""
    generator = torch.Generator().manual_seed(3)
    around = torch.arange(NUM_NODES)
    src = torch.cat([around, (torch.rand(200, generator=generator) ** 2 * NUM_NODES).long()])
    dst = torch.cat([(around + 1) % NUM_NODES, torch.randint(0, NUM_NODES, (200,), generator=generator)])
    order = torch.randperm(len(src), generator=generator)
    return src[order], dst[order], hr.Graph.from_coo(src[order], dst[order], num_nodes=NUM_NODES)


def bound(*, loops: bool) -> hr.Graph:
    """A ring of 40 nodes, into which 5 lead and out of which 3; 2 are alone. With `loops`, each leads to itself."""
    around = torch.arange(40)
    src = torch.cat([around, torch.arange(40, 45), torch.zeros(3, dtype=torch.int64)])
    dst = torch.cat([(around + 1) % 40, torch.zeros(5, dtype=torch.int64), torch.arange(45, 48)])
    if loops:
        src, dst = (torch.cat([ends, torch.arange(50)]) for ends in (src, dst))
    return hr.Graph.from_coo(src, dst, num_nodes=50)
