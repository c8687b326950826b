"""Masks of integers, which would be read as the ids 0 and 1."""

from __future__ import annotations

import pytest
import torch

import headrace as hr


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_masks_of_integers_are_no_ids(dtype):
    graph = hr.Graph.from_coo(torch.arange(40), torch.arange(40))
    mask = torch.arange(40) % 3 == 0
    message = r"expected items to be ids or a boolean mask, got 0 and 1 for each of 40 nodes; write mask\.bool\(\)"
    for given in (mask, torch.ones(40, dtype=torch.bool), ~torch.ones(40, dtype=torch.bool)):
        with pytest.raises(hr.InputError, match=message):
            hr.ItemSampler(given.to(dtype)).sample_neighbor(graph, [1]).loader()
    typed = hr.Graph.from_coo({("a", "to", "b"): (torch.arange(40), torch.arange(40))})
    with pytest.raises(hr.InputError, match="type 'b': expected ids or a boolean mask, got 0 and 1 for each of 40"):
        hr.ItemSampler({"b": mask.to(dtype)}).sample_neighbor(typed, [1]).loader()
    for given in (torch.zeros(39, dtype=dtype), torch.tensor([0, 1, 2] + [0] * 37, dtype=dtype), mask):
        hr.ItemSampler(given).sample_neighbor(graph, [1]).loader()
    one_node = torch.zeros(40, dtype=dtype)  # at 40 times, or with 40 labels
    hr.ItemSampler(one_node, time=torch.arange(40)).sample_neighbor(graph, [1]).loader()
    hr.ItemSampler((one_node, torch.arange(40.0))).sample_neighbor(graph, [1]).loader()
