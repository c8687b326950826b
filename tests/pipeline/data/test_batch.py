from __future__ import annotations

import torch

import headrace as hr
from headrace.pipeline.data.batch_words import _INSTEAD


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


def test_words_of_other_libraries_are_no_attributes_of_a_batch():
    assert not [word for word in _INSTEAD if hasattr(batch(), word)]
