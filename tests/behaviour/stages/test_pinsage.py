"""The PinSAGE stage: hops of visited nodes, weights that average to 1, refusals before work starts."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import graph, items


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
