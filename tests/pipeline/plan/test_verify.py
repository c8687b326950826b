"""The legal language of plans, of stages that passes make."""

from __future__ import annotations

import pytest
from hand_made import hand_made

import headrace as hr
from headrace.ops.sampling.rules import NeighborRule
from headrace.pipeline.plan.verify import verify
from headrace.pipeline.stages.sampler import Sampler

from plans import PLANS, graph, items, store

RULE = NeighborRule(2)


def other_graph():
    return hr.Graph.from_csc(graph().indptr, graph().indices.clone())


@pytest.mark.parametrize("name", PLANS)
def test_legal_plans(name):
    verify(PLANS[name]())


def test_hops_can_be_chained_by_hand():
    by_hand = hand_made(items()).sample_hop(graph(), RULE, layer=0, key_layer=0).compact(graph())
    assert [batch.digest() for batch in by_hand.loader()] == [
        batch.digest() for batch in items().sample_neighbor(graph(), [2]).loader()
    ]


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: hand_made(items()).sample_hop(graph(), RULE, layer=0, key_layer=0), "its hop is not compacted"),
        (
            lambda: (
                hand_made(items()).sample_hop(graph(), RULE, layer=0, key_layer=0).fetch_feature(store(), node=["x"])
            ),
            "compacted by the very next stage",
        ),
        (lambda: hand_made(items()).compact(graph()), "it takes hop, and a minibatch comes"),
        (lambda: hand_made(items()).sample_hop(graph(), RULE, layer=1, key_layer=1).compact(graph()), "for hop 0"),
        (
            lambda: (
                hand_made(items())
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
                hand_made(items())
                .sample_hop(graph(), RULE, layer=0, key_layer=0, expand="all")
                .compact(graph(), expand="new")
            ),
            "to be those of the hop",
        ),
        (
            lambda: hand_made(items()).sample_hop(graph(), RULE, layer=0, key_layer=0).compact(other_graph()),
            "to be those of the hop",
        ),
        (
            lambda: hand_made(items()).walk_hop(graph(), 2, 3, 2, layer=0).compact(graph()),
            "edge_ids to be those of the hop",
        ),
        (
            lambda: hand_made(items()).walk_hop(graph(), 2, 3, 2, layer=1).compact(graph(), edge_ids=False),
            "for hop 0",
        ),
    ],
)
def test_illegal_plans_are_named_and_printed(build, match):
    with pytest.raises(hr.PlanError, match=match) as caught:
        build().loader()
    assert "item_sampler(100 items" in str(caught.value)


SAMPLERS = {
    "sample_neighbor": ([2],),
    "sample_layer_neighbor": ([2],),
    "sample_ladies": ([20],),
    "sample_in_subgraph": (),
    "sample_pinsage": (2, 3, 2),
    "sample_saint": ("node",),
    "sample_shadow": (2, 3),
}


def sample(plan, name):
    options = {"budget": 5} if name == "sample_saint" else {}
    return getattr(plan, name)(graph(), *SAMPLERS[name], **options)


def test_the_samplers_are_all_that_there_are():
    # Other tests have samplers of their own.
    ours = [stage for stage in subclasses(Sampler) if stage.__module__.startswith("headrace.")]
    names = {stage.__dict__["name"] for stage in ours if "name" in stage.__dict__}
    assert names == {*SAMPLERS}


def subclasses(base):
    return [base, *(one for child in base.__subclasses__() for one in subclasses(child))]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_plan_has_one_sampler_behind_hops_by_hand_too(name):
    by_hand = hand_made(items()).sample_hop(graph(), RULE, layer=0, key_layer=0).compact(graph())
    for plan in (by_hand, hand_made(items()).sample_fused(graph(), (RULE,), key_layers=(0,))):
        with pytest.raises(hr.PlanError, match=f"{name} cannot stand here: a plan has one sampler"):
            sample(plan, name).loader()
    with pytest.raises(hr.PlanError, match="sample_fused cannot stand here: a plan has one sampler"):
        hand_made(sample(items(), name)).sample_fused(graph(), (RULE,), key_layers=(0,)).loader()


BY_HAND = {
    "sample_hop": {"rule": RULE, "layer": 0, "key_layer": 0},
    "walk_hop": {"num_neighbors": 2, "num_walks": 3, "walk_length": 2, "layer": 0},
    "sample_fused": {"rules": (RULE,), "key_layers": (0,)},
    "compact": {},
}


@pytest.mark.parametrize("verb", BY_HAND)
def test_bad_parameters_of_hand_made_hops(verb):
    with pytest.raises(hr.InputError, match=f"{verb}.*'all' or 'new'"):
        getattr(hand_made(items()), verb)(graph(), expand="zzz", **BY_HAND[verb])
    with pytest.raises(hr.InputError, match=f"{verb}.*hr.Graph, got int"):
        getattr(hand_made(items()), verb)(3, **BY_HAND[verb])
    if verb != "compact":
        with pytest.raises(hr.InputError, match=f"{verb}.*'w'"):
            getattr(hand_made(items()), verb)(graph(), weight="w", **BY_HAND[verb])


@pytest.mark.parametrize("name", ["num_neighbors", "num_walks", "walk_length", "restart"])
def test_bad_numbers_of_hand_made_walks(name):
    with pytest.raises(hr.InputError, match=f"walk_hop: expected {name} to be"):
        hand_made(items()).walk_hop(graph(), **{**BY_HAND["walk_hop"], name: -1})


def test_hops_by_hand_stand_before_features_of_what_they_change():
    fetched = hand_made(items().fetch_feature(store(), node=["x"]))
    with pytest.raises(hr.PlanError, match=r"compact cannot stand here: .*node features were fetched before"):
        fetched.walk_hop(graph(), **BY_HAND["walk_hop"]).compact(graph(), edge_ids=False).loader()
    with pytest.raises(hr.PlanError, match=r"sample_fused cannot stand here: .*node features were fetched before"):
        fetched.sample_fused(graph(), **BY_HAND["sample_fused"]).loader()


def test_walk_hops_can_be_chained_by_hand():
    by_hand = hand_made(items()).walk_hop(graph(), **BY_HAND["walk_hop"]).compact(graph(), edge_ids=False)
    assert [batch.digest() for batch in by_hand.loader()] == [
        batch.digest() for batch in items().sample_pinsage(graph(), 2, 3, 2).loader()
    ]
