"""A block of three destinations, and a batch of two hops, written out."""

from __future__ import annotations

import torch

import headrace as hr


def block(**changes):
    arguments = {
        "indptr": torch.tensor([0, 2, 2, 3]),
        "indices": torch.tensor([1, 4, 0], dtype=torch.int32),
        "num_src": 5,
        "num_dst": 3,
        "edge_ids": torch.tensor([7, 8, 9]),
        "weight": torch.tensor([1.0, 2.0, 3.0]),
    }
    return hr.Block(**{**arguments, **changes})


def batch(**changes):
    """Two hops from node 10: 10 <- 20, 30 and then again 10 <- 20 and 20 <- 40."""
    outer = hr.Block(
        torch.tensor([0, 1, 2, 2]), torch.tensor([1, 3], dtype=torch.int32), 4, 3, edge_ids=torch.tensor([5, 7])
    )
    inner = hr.Block(torch.tensor([0, 2]), torch.tensor([1, 2], dtype=torch.int32), 3, 1, edge_ids=torch.tensor([5, 6]))
    arguments = {
        "seeds": torch.tensor([10]),
        "seed_index": torch.tensor([0]),
        "item_index": torch.tensor([3]),
        "y": torch.tensor([2]),
        "n_id": torch.tensor([10, 20, 30, 40]),
        "node": {"x": torch.arange(8.0).reshape(4, 2)},
        "edge": {"w": [torch.tensor([0.5, 0.7]), torch.tensor([0.5, 0.6])]},
        "blocks": [outer, inner],
        "num_sampled_nodes": [1, 2, 1],
        "num_sampled_edges": [2, 2],
        "epoch": 1,
        "index": 4,
        "num_global_seeds": 1,
    }
    return hr.MiniBatch(**{**arguments, **changes})
