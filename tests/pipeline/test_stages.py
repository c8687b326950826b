"""Stages describe: they chain without change, compare, print, and refuse bad parameters before work starts."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import headrace as hr
from headrace.pipeline.plan import fingerprint, stages_of
from headrace.pipeline.stage import Stage

from plans import PLANS, graph, items, store


def test_chaining_changes_nothing():
    plan = items()
    longer = plan.sample_neighbor(graph(), [2])
    assert longer.upstream is plan
    assert plan.upstream is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        longer.fanouts = (3,)


@pytest.mark.parametrize("name", PLANS)
def test_equal_when_built_alike(name):
    assert PLANS[name]() == PLANS[name]()
    assert hash(PLANS[name]()) == hash(PLANS[name]())
    assert fingerprint(PLANS[name]()) == fingerprint(PLANS[name]())


def test_different_when_anything_differs():
    plans = [build() for build in PLANS.values()]
    plans += [items(seed=1), items(batch_size=3), items(drop_last=True), items().prefetch(), items().prefetch(2)]
    for number, plan in enumerate(plans):
        assert all(plan != other for other in plans[:number])


def test_a_plan_prints_its_stages():
    plan = items().sample_neighbor(graph(), [5, 3]).fetch_feature(store(), node=["x"], labels="y").prefetch(workers=2)
    assert repr(plan).splitlines() == [
        "item_sampler(100 items, batch_size=17, shuffle=True, seed=11)",
        f"sample_neighbor({graph()}, [5, 3])",
        f"fetch_feature({store()}, node=['x'], labels='y')",
        "prefetch(2)",
    ]


def test_pipe_serves_stages_from_elsewhere():
    def twice(plan, function):
        return plan.transform(function).transform(function)

    assert len(stages_of(items().pipe(twice, abs))) == 3


def test_a_new_stage_becomes_a_method_and_runs():
    assert not hasattr(Stage, "reverse_seeds")

    @hr.verb("reverse_seeds")
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class ReverseSeeds(hr.MapStage):
        def runner(self, settings):
            return lambda batch: batch.replace(seeds=batch.seeds.flip(0))

    try:
        assert "reverse_seeds" in hr.verbs()
        batch = next(iter(hr.ItemSampler(3).reverse_seeds().loader()))
        assert batch.seeds.tolist() == [2, 1, 0]
    finally:
        del Stage.reverse_seeds


@pytest.mark.parametrize("name", ["sample_neighbor", "loader", "pipe"])
def test_a_taken_verb_is_refused(name):
    with pytest.raises(hr.PlanError, match=name):
        hr.verb(name)(hr.MapStage)


def test_the_verbs():
    assert hr.verbs() == (
        "compact",
        "copy_to",
        "fetch_feature",
        "prefetch",
        "sample_fused",
        "sample_hop",
        "sample_layer_neighbor",
        "sample_neighbor",
        "sample_pinsage",
        "sample_saint_edge",
        "sample_saint_node",
        "sample_saint_walk",
        "transform",
        "walk_hop",
    )


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_layer_neighbor"])
@pytest.mark.parametrize("fanouts", [[], [-2], [3, -5], 5, "10", [2.5], [True], None])
def test_bad_fanouts(verb, fanouts):
    with pytest.raises(hr.InputError, match=f"{verb}.*fanout"):
        getattr(items(), verb)(graph(), fanouts)


def test_a_subject_that_is_no_graph():
    with pytest.raises(hr.InputError, match="Graph; Tensor came"):
        items().sample_neighbor(torch.zeros(3), [2])


def test_bad_hop_rule():
    with pytest.raises(hr.InputError, match="'all' or 'new'"):
        items().sample_neighbor(graph(), [2], expand="old")


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_refused_before_work_starts(value):
    weights = torch.ones(3)
    weights[1] = value
    bad = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": weights})
    for verb in ("sample_neighbor", "sample_layer_neighbor"):
        with pytest.raises(hr.GraphError, match=verb):
            getattr(hr.ItemSampler(3), verb)(bad, [2], weight="w")


def test_missing_weights_list_those_that_exist():
    with pytest.raises(hr.GraphError, match=r"'w'.*\['weight'\]"):
        items().sample_neighbor(graph(), [2], weight="w")


def test_missing_features_list_those_that_exist():
    with pytest.raises(hr.FeatureError, match=r"'z'.*\['x', 'y'\]"):
        items().fetch_feature(store(), node=["z"])
    with pytest.raises(hr.FeatureError, match="at least one"):
        items().fetch_feature(store())
    with pytest.raises(hr.FeatureError, match="FeatureStore; dict came"):
        items().fetch_feature({"x": 1}, node=["x"])


def test_features_shorter_than_the_graph_are_refused_before_work_starts():
    short = hr.FeatureStore(node={"x": torch.zeros(graph().num_nodes - 1, 2)}, edge={"e": torch.zeros(3, 1)})
    with pytest.raises(hr.FeatureError, match="199 rows"):
        items().sample_neighbor(graph(), [2]).fetch_feature(short, node=["x"]).loader()
    with pytest.raises(hr.FeatureError, match="3 rows"):
        items().sample_neighbor(graph(), [2]).fetch_feature(short, edge=["e"]).loader()
    with pytest.raises(hr.FeatureError, match="199 rows"):
        hr.ItemSampler([199]).fetch_feature(short, labels="x").loader()


def test_edge_features_need_edge_ids():
    plan = items().sample_neighbor(graph(), [2], edge_ids=False).fetch_feature(store(), edge=["e"])
    with pytest.raises(hr.PlanError, match="edge_ids=True"):
        plan.loader()


def test_items_outside_the_graph_are_refused_before_work_starts():
    with pytest.raises(hr.InputError, match="item 200 is not"):
        hr.ItemSampler([3, 200]).sample_neighbor(graph(), [2]).loader()


def test_labels_of_pairs():
    plan = hr.ItemSampler(torch.zeros(3, 2, dtype=torch.int64)).fetch_feature(store(), labels="y")
    with pytest.raises(hr.PlanError, match="pairs"):
        plan.loader()


@pytest.mark.parametrize("arguments", [{"workers": -1}, {"depth": 0}, {"workers": 1.5}, {"workers": True}])
def test_bad_prefetch(arguments):
    with pytest.raises(hr.PlanError, match="prefetch"):
        items().prefetch(**arguments)


def test_bad_devices():
    with pytest.raises(hr.PlanError, match="not a torch device"):
        items().copy_to("gpu0")
    plan = items().copy_to("cuda")
    if not torch.cuda.is_available():
        with pytest.raises(hr.PlanError, match="cannot be used here"):
            plan.loader()


def test_bad_transform():
    with pytest.raises(hr.PlanError, match="function"):
        items().transform(3)
