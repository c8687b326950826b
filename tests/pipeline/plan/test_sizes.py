"""What memory does not hold is refused before work, on machines with little of it."""

from __future__ import annotations

import pytest
import torch
from hand_made import hand_made

import headrace as hr
from headrace.ops import memory_limit
from headrace.ops.memory_limit import check_fits_memory

from plans import graph, items, pairs

HUGE = (1 << 31) - 1


def test_walks_of_a_hop():
    with pytest.raises(hr.InputError, match=r"at most 1,048,576, got 2,147,483"):
        hand_made(items()).walk_hop(graph(), 3, HUGE, HUGE, layer=0)


@pytest.mark.parametrize("verb", ["sample_saint_node", "sample_saint_edge"])
def test_draws_of_a_subgraph(verb, monkeypatch):
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 1 << 30)
    with pytest.raises(hr.InputError, match=rf"{verb}: got budget = 2,147,483,647.*lower it"):
        getattr(hand_made(items()), verb)(graph(), HUGE).loader()


def test_walks_of_all_roots_together(monkeypatch):
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 100 << 20)
    plan = items().sample_saint_walk(graph(), 1 << 20, norms=False)
    with pytest.raises(hr.InputError, match=r"walk_length = 1,048,576 for 17 roots, which takes at least 142\.6 MB"):
        plan.loader()


@pytest.mark.parametrize(("mode", "world_size", "most"), [("binary", 1, 51), ("triplet", 1, 128), ("binary", 2, 102)])
def test_negatives_of_a_batch(mode, world_size, most, monkeypatch):
    """As many as memory holds are allowed, counted for the pairs of a rank's batch; checked before any is drawn."""
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 10 * 2048)
    place = {"rank": 0, "world_size": world_size}
    pairs(batch_size=10).sample_uniform_negative(graph(), most, mode).loader(**place)
    for ratio in (most + 1, 10**9):
        plan = pairs(batch_size=10).sample_uniform_negative(graph(), ratio, mode)
        words = rf"sample_uniform_negative: got ratio={ratio:,} for batches of at least {10 // world_size} pairs.*lower"
        with pytest.raises(hr.InputError, match=words):
            plan.loader(**place)


def test_negatives_of_batches_that_nobody_knows(monkeypatch):
    """They have one pair at least: of sources that draw, by a budget, and with items of each rank's own."""
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: 2048)
    for plan in (
        pairs(batch_size=None, budget=1 << 20, cost=torch.ones(60, dtype=torch.int64)),
        pairs(items_per_rank=True),
    ):
        plan.sample_uniform_negative(graph(), 51).loader()
        with pytest.raises(hr.InputError, match="ratio=52 for batches of at least 1 pairs"):
            plan.sample_uniform_negative(graph(), 52).loader()


def test_where_the_system_does_not_say(monkeypatch):
    monkeypatch.setattr(memory_limit, "memory_bytes", lambda: None)
    check_fits_memory(1 << 100, "anything", "nothing to do")
