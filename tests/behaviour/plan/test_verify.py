"""Plans that are legal, and those that are refused with the stage that cannot stand there."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import headrace as hr

from plans import graph, items, store

MACHINE = hr.Machine(cores=2, gpus=1)

SAMPLERS = {
    "sample_neighbor": ([2],),
    "sample_layer_neighbor": ([2],),
    "sample_ladies": ([20],),
    "sample_in_subgraph": (),
    "sample_pinsage": (2, 3, 2),
    "sample_saint_node": (5,),
    "sample_saint_edge": (5,),
    "sample_saint_walk": (2,),
    "sample_shadow": (2, 3),
}


def sample(plan, name):
    return getattr(plan, name)(graph(), *SAMPLERS[name])


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("first", ["sample_neighbor", "sample_ladies", "sample_pinsage", "sample_saint_node"])
def test_a_plan_has_one_sampler(first, name):
    with pytest.raises(hr.PlanError, match=f"{name} cannot stand here: a plan has one sampler"):
        sample(sample(items(), first), name).loader()


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_stand_before_what_depends_on_their_nodes(name):
    with pytest.raises(hr.PlanError, match=f"{name} cannot stand here: .*node features were fetched before"):
        sample(items().fetch_feature(store(), node=["x"]), name).loader()


@pytest.mark.parametrize("again", [{"node": ["y", "x"]}, {"edge": ["e"]}])
def test_a_feature_is_fetched_once(again):
    fetched = sample(items(), "sample_neighbor").fetch_feature(store(), node=["x"], edge=["e"], labels="y")
    with pytest.raises(hr.PlanError, match=r"fetch_feature cannot stand here: it fetches (node|edge) feature '[xe]'"):
        fetched.fetch_feature(hr.FeatureStore(store().node, store().edge), **again).loader()
    domain, names = next(iter(again.items()))
    with pytest.raises(hr.InputError, match=rf"expected {domain} to name each feature once, got '\w' twice"):
        items().fetch_feature(store(), **{domain: names * 2})
    assert set(next(iter(fetched.fetch_feature(store(), node=["y"]).loader())).node) == {"x", "y"}


def copy_to(device):
    return items().copy_to(device).stages[-1]


@dataclass(frozen=True, eq=False, repr=False)
class Somewhere(hr.ext.MapStage):
    """A stage that reads and writes a feature, each at a place."""

    name = "somewhere"

    at: hr.Place | None
    to: hr.Place | None = None

    @property
    def reads(self):
        return frozenset({"node"})

    @property
    def writes(self):
        return frozenset({"node"})

    @property
    def reads_at(self):
        return self.at

    @property
    def writes_at(self):
        return self.to

    def runner(self, settings):
        return lambda batch: (batch, {})


CPU, META, GPU, PINNED = (hr.Place.parse(text) for text in ("cpu", "meta", "cuda:0", "pinned"))


@pytest.mark.parametrize(
    ("stages", "match"),
    [
        ([Somewhere(CPU), Somewhere(None), Somewhere(CPU)], None),
        ([Somewhere(CPU, PINNED), Somewhere(PINNED), Somewhere(CPU)], None),
        ([Somewhere(CPU, GPU), Somewhere(GPU), Somewhere(None), Somewhere(GPU)], None),
        ([Somewhere(CPU, GPU), Somewhere(CPU)], "copied to a device before"),
        ([Somewhere(CPU, GPU), Somewhere(None), Somewhere(CPU)], "copied to a device before"),
        ([Somewhere(PINNED)], r"reads node on pinned, but what it finds is on cpu: put copy_to\('pinned'\) before"),
        ([copy_to("meta"), Somewhere(META), Somewhere(None, GPU), Somewhere(GPU)], None),
        ([copy_to("meta"), Somewhere(GPU)], "reads node on cuda:0, but what it finds is on meta"),
        ([copy_to("meta"), copy_to("cpu"), Somewhere(CPU)], None),
    ],
)
def test_fields_lie_where_stages_read_them(stages, match):
    plan = items().fetch_feature(store(), node=["x"])
    for stage in stages:
        plan = plan.then(stage)
    if match is None:
        plan.explain(machine=MACHINE)
    else:
        with pytest.raises(hr.PlanError, match=match):
            plan.explain(machine=MACHINE)


def test_other_fields_stay_where_they_are():
    plan = items().fetch_feature(store(), node=["x"]).then(Somewhere(CPU, GPU))
    plan.fetch_feature(store(), node=["y"]).explain(machine=MACHINE)
    with pytest.raises(hr.PlanError, match="cannot stand here: it works in CPU memory"):
        plan.copy_to("cuda:0").then(Somewhere(CPU)).explain(machine=MACHINE)


def test_long_plans_are_not_taken_for_circles():
    assert len(items().sample_neighbor(graph(), [1] * 300).loader().explain()) > 0
