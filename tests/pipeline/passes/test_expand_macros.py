"""Macros give the same result as their parts, chained by hand."""

from __future__ import annotations

from hand_made import HandMade

from plans import graph, items


def test_same_result_as_the_parts():
    plan = items().sample_neighbor(graph(), [3, 2])
    source, sampler = plan.stages
    by_hand = HandMade([source, *sampler.parts()])
    assert [batch.digest() for batch in plan.loader()] == [batch.digest() for batch in by_hand.loader()]
