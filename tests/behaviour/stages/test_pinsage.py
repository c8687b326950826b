"""The PinSAGE stage: hops of visited nodes, weights that average to 1, refusals before work starts."""

from __future__ import annotations

import pytest
import torch

import headrace as hr

from plans import graph, items, store


def test_it_expands_to_hops_and_compactions():
    plan = items().sample_pinsage(graph(), 3, 4, 2, num_layers=2)
    text = plan.loader().explain()
    assert "walk_hop" in text
    assert "compact" in text
    stats = plan.loader()
    batches = list(stats)
    assert "walks" in str(stats.stats())
    assert all(len(batch.blocks) == 2 and batch.blocks[1].edge_ids is None for batch in batches)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1), "num_neighbors"),
        ((1, 1.5, 1), "num_walks"),
        ((1, 1, True), "walk_length"),
        ((1, 1, 1, 1.0), "restart"),
        ((1, 1, 1, 0.5, 0), "num_layers"),
    ],
)
def test_bad_numbers(arguments, message):
    with pytest.raises(hr.InputError, match=f"sample_pinsage: expected {message}"):
        items().sample_pinsage(graph(), *arguments)


def test_bad_subjects():
    with pytest.raises(hr.InputError, match="Graph, got int; make one"):
        items().sample_pinsage(3, 1, 1, 1)
    with pytest.raises(hr.InputError, match="'all' or 'new'"):
        items().sample_pinsage(graph(), 1, 1, 1, expand="old")
    with pytest.raises(hr.InputError, match=r"sample_pinsage.*'w'"):
        items().sample_pinsage(graph(), 1, 1, 1, weight="w")
    with pytest.raises(hr.InputError, match="item 200 is not"):
        hr.ItemSampler(torch.tensor([3, 200])).sample_pinsage(graph(), 1, 1, 1).loader()
    with pytest.raises(hr.PlanError, match="edge features"):
        items().sample_pinsage(graph(), 1, 1, 1).fetch_feature(store(), edge=["e"]).loader()
