"""The legal language of plans."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.ops.sample import NeighborRule
from headrace.pipeline.verify import verify

from plans import PLANS, graph, items, store

RULE = NeighborRule(2)


def other_graph():
    return hr.Graph.from_csc(graph().indptr, graph().indices.clone())


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
        (
            lambda: items().fetch_feature(store(), node=["x"]).sample_neighbor(graph(), [2]),
            "node features were fetched before",
        ),
        (
            lambda: (
                items()
                .sample_hop(graph(), RULE, layer=0, key_layer=0)
                .compact(graph())
                .fetch_feature(store(), edge=["e"])
                .sample_hop(graph(), RULE, layer=1, key_layer=1)
                .compact(graph())
            ),
            "edge features were fetched before",
        ),
        (
            lambda: (
                items().sample_hop(graph(), RULE, layer=0, key_layer=0, expand="all").compact(graph(), expand="new")
            ),
            "must be those of the hop",
        ),
        (
            lambda: items().sample_hop(graph(), RULE, layer=0, key_layer=0).compact(other_graph()),
            "must be those of the hop",
        ),
        (lambda: items().sample_neighbor(graph(), [2]).sample_neighbor(graph(), [2]), "one sampler"),
        (
            lambda: items().sample_neighbor(graph(), [2]).copy_to("meta").fetch_feature(store(), node=["x"]),
            "copied to a device before",
        ),
    ],
)
def test_illegal_plans_are_named_and_printed(build, match):
    with pytest.raises(hr.PlanError, match=match) as caught:
        build().loader()
    assert "item_sampler(100 items" in str(caught.value)


@pytest.mark.parametrize("verb", ["sample_hop", "compact"])
def test_bad_hop_rules_of_hand_made_hops(verb):
    arguments = {"rule": RULE, "layer": 0, "key_layer": 0} if verb == "sample_hop" else {}
    with pytest.raises(hr.InputError, match=f"{verb}.*'all' or 'new'"):
        getattr(items(), verb)(graph(), expand="zzz", **arguments)


def test_long_plans_are_not_taken_for_circles():
    assert len(items().sample_neighbor(graph(), [1] * 300).loader().explain()) > 0


def test_a_plan_begins_with_a_source():
    from headrace.pipeline.stages import Prefetch

    with pytest.raises(hr.PlanError, match="begins with a source"):
        Prefetch().loader()
