"""The legal language of plans."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.ops.sample import NeighborRule
from headrace.pipeline.verify import verify

from plans import PLANS, graph, items, store

RULE = NeighborRule(2)


@pytest.mark.parametrize("name", PLANS)
def test_legal_plans(name):
    verify(PLANS[name]())


def test_hops_can_be_chained_by_hand():
    by_hand = items().sample_hop(graph(), RULE, layer=0, key_layer=0).compact(graph())
    assert [batch.digest() for batch in by_hand.loader()] == [
        batch.digest() for batch in items().sample_neighbor(graph(), [2]).loader()
    ]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: items().sample_hop(graph(), RULE, layer=0, key_layer=0), "its hop is not compacted"),
        (
            lambda: items().sample_hop(graph(), RULE, layer=0, key_layer=0).fetch_feature(store(), node=["x"]),
            "compacted by the very next stage",
        ),
        (lambda: items().compact(graph()), "reads hop, which no stage before it writes"),
        (lambda: items().sample_hop(graph(), RULE, layer=1, key_layer=1).compact(graph()), "this is hop 0"),
        (lambda: items().fetch_feature(store(), edge=["e"]), "reads blocks"),
    ],
)
def test_illegal_plans_are_named_and_printed(build, match):
    with pytest.raises(hr.PlanError, match=match) as caught:
        build().loader()
    assert "item_sampler(100 items" in str(caught.value)


def test_a_plan_begins_with_a_source():
    from headrace.pipeline.stages import Prefetch

    with pytest.raises(hr.PlanError, match="begins with a source"):
        Prefetch().loader()
