"""Samplers of users by the rules of headrace: the batches of its own verbs, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

import headrace as hr

NUM_NODES, NUM_EDGES = 120, 2_000
DRAWN = torch.Generator().manual_seed(3)
SRC, DST = torch.randint(0, NUM_NODES, (2, NUM_EDGES), generator=DRAWN)
TIME = torch.randperm(NUM_EDGES, generator=DRAWN)
GRAPH = hr.Graph.from_coo(
    SRC, DST, num_nodes=NUM_NODES, edge_attrs={"time": TIME, "w": torch.rand(NUM_EDGES, generator=DRAWN)}
)


def sampler(rule: Callable[[int], object], **members: object) -> Callable[..., hr.ext.Stage]:
    return type("Own", (hr.ext.HopSampler,), {"name": "own", "rule": lambda self, fanout: rule(fanout), **members})


def items(*, timed: bool = False) -> hr.Plan:
    return hr.ItemSampler(60, batch_size=20, seed=3, **({"time": torch.full((60,), 1_500)} if timed else {}))


def digests(plan: hr.Plan) -> list[str]:
    return [batch.digest() for batch in plan.loader()]


RULES = {
    "neighbor": (hr.ext.NeighborRule, "sample_neighbor", {}),
    "replace": (partial(hr.ext.NeighborRule, replace=True), "sample_neighbor", {"replace": True}),
    "labor": (hr.ext.LaborRule, "sample_layer_neighbor", {}),
    "poisson": (partial(hr.ext.LaborRule, exact=False), "sample_layer_neighbor", {"exact": False}),
    "importance": (partial(hr.ext.LaborImportanceRule, importance=2), "sample_layer_neighbor", {"importance": 2}),
    "ladies": (hr.ext.LadiesRule, "sample_ladies", {}),
    "pladies": (partial(hr.ext.LadiesRule, poisson=True), "sample_ladies", {"poisson": True}),
}
OPTIONS = [{}, {"weight": "w"}, {"edge_ids": False}, {"expand": "new"}]
TREES = [
    {"disjoint": True},
    {"time": "time"},
    {"time": "time", "weight": "w"},
    {"time": "time", "window": 700, "strictly_before": True},
]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("options", OPTIONS + TREES)
def test_batches_are_those_of_the_verb(name, options):
    rule, verb, parameters = RULES[name]
    begun = items(timed="time" in options)
    own = sampler(rule)(GRAPH, [3, 2], **options)
    if name in ("importance", "ladies", "pladies") and options in TREES:
        with pytest.raises(
            hr.InputError, match="own: expected a rule for each node alone where each seed grows a tree"
        ):
            begun.then(own).loader()
    elif verb == "sample_ladies" and "expand" in options:
        assert len(digests(begun.then(own))) == 3  # which the verb does not offer
    else:
        assert digests(begun.then(own)) == digests(getattr(begun, verb)(GRAPH, [3, 2], **options, **parameters))


@pytest.mark.parametrize("options", [{}, {"window": 700}, {"strictly_before": True}])
def test_the_latest_edges_are_the_latest_by_time(options):
    own = sampler(hr.ext.LatestRule)(GRAPH, [3, 2], time="time", **options)
    builtin = items(timed=True).sample_neighbor(GRAPH, [3, 2], time="time", strategy="last", **options)
    assert digests(items(timed=True).then(own)) == digests(builtin)
    batch = next(
        iter(hr.ItemSampler([0], time=[NUM_EDGES]).then(sampler(hr.ext.LatestRule)(GRAPH, [2], time="time")).loader())
    )
    latest = TIME[DST == 0].sort().values[-2:]
    assert sorted(TIME[batch.blocks[0].edge_ids].tolist()) == latest.tolist()


@pytest.mark.parametrize("options", [{}, {"expand": "new"}, {"disjoint": True}])
def test_the_latest_edges_need_times(options):
    with pytest.raises(hr.InputError, match="own: expected time= beside LatestRule, which takes the most recent edges"):
        items().then(sampler(hr.ext.LatestRule)(GRAPH, [2], **options)).loader()


def test_the_latest_edges_have_no_weights():
    own = sampler(hr.ext.LatestRule)(GRAPH, [2], time="time", weight="w")
    with pytest.raises(hr.InputError, match=r"own: expected no weight beside LatestRule, .* got weight='w'"):
        items(timed=True).then(own).loader()


@pytest.mark.parametrize("rule", [None, "neighbor", 3, hr.ext.NeighborRule, [hr.ext.NeighborRule(2)]])
def test_what_is_no_rule_is_refused(rule):
    with pytest.raises(hr.InputError, match=r"own: expected rule\(fanout\) of Own to return a rule, such as"):
        items().then(sampler(lambda fanout: rule)(GRAPH, [2])).loader()


@pytest.mark.parametrize("layer", [None, "0", -1, 1 << 16])
def test_a_layer_is_a_number(layer):
    own = sampler(hr.ext.NeighborRule, key_layer=lambda self, hop: layer)(GRAPH, [2])
    with pytest.raises(hr.InputError, match=r"own: expected key_layer\(0\) to be an integer from 0 to 65535"):
        items().then(own).loader()


def test_only_labor_depends_on_batches():
    verb = items().sample_layer_neighbor(GRAPH, [3, 2], batch_dependency=4)
    assert digests(items().then(sampler(hr.ext.LaborRule, batch_dependency=4)(GRAPH, [3, 2]))) == digests(verb)
    with pytest.raises(hr.InputError, match="own: expected batch_dependency=1, or LABOR's rules without trees, got 4"):
        items().then(sampler(hr.ext.NeighborRule, batch_dependency=4)(GRAPH, [3, 2])).loader()


def test_hops_may_have_rules_of_their_own():
    own = sampler(lambda fanout: hr.ext.NeighborRule(-1) if fanout < 0 else hr.ext.LaborRule(fanout))
    batch = next(iter(items().then(own(GRAPH, [-1, 2])).loader()))
    in_degrees = torch.bincount(DST, minlength=NUM_NODES)
    assert batch.blocks[-1].num_edges == int(in_degrees[batch.seeds].sum())
    assert int(batch.blocks[0].indptr.diff().max()) == 2


def test_a_rule_of_a_kind_of_ones_own_is_refused():
    own = type("Mine", (hr.ext.NeighborRule,), {"kind": property(lambda self: "mine")})
    match = r"own: expected a rule of a kind that there is, .* got Mine of 'mine'; .* docs/extending.md"
    with pytest.raises(hr.InputError, match=match):
        digests(items().then(sampler(own)(GRAPH, [3])))
    alike = type("Mine", (hr.ext.NeighborRule,), {})
    assert digests(items().then(sampler(alike)(GRAPH, [3]))) == digests(items().sample_neighbor(GRAPH, [3]))
