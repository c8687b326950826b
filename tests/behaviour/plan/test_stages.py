"""Stages describe: they chain without change, compare, print, and refuse bad parameters before work starts."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import torch

import headrace as hr

from plans import PLANS, graph, items, store


def test_chaining_changes_nothing():
    plan = items()
    longer = plan.sample_neighbor(graph(), [2])
    assert longer.stages[:-1] == plan.stages
    with pytest.raises(dataclasses.FrozenInstanceError):
        longer.stages[-1].fanouts = (3,)
    with pytest.raises(AttributeError):
        longer.stages = ()


@pytest.mark.slow
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


def keep(batch, k=1, *, extra=()):
    return batch


def fingerprint(plan):
    """What a checkpoint notes of each stage."""
    return plan.loader().state_dict()["plan"]


def digest_of(plan):
    return list(fingerprint(plan).values())[-1]


def test_fingerprints_tell_functions_apart():
    limit = 3
    functions = [
        keep,
        functools.partial(keep, k=1),
        functools.partial(keep, k=2),
        functools.partial(abs),
        lambda batch: batch,
        lambda batch: batch.replace(y=None),
        lambda batch: batch if limit else None,
    ]
    digests = [digest_of(items().transform(function)) for function in functions]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda batch: batch.seeds, lambda batch: batch.n_id),
        (lambda batch: torch.sin(batch.x), lambda batch: torch.cos(batch.x)),
        (lambda batch: batch.replace(y=None), lambda batch: batch.replace(y=0)),
        (lambda batch: [batch.y for _ in batch.blocks], lambda batch: [batch.x for _ in batch.blocks]),
    ],
)
def test_fingerprints_tell_functions_apart_by_the_names_and_values_they_use(one, other):
    """Such functions have the same instructions."""
    assert digest_of(items().transform(one)) != digest_of(items().transform(other))


def test_fingerprints_tell_functions_apart_by_what_they_close_over():
    def scaled(factor):
        return lambda batch: batch.replace(y=batch.y * factor)

    digests = [digest_of(items().transform(scaled(factor))) for factor in (2, 3, 2.0)]
    assert len(set(digests)) == 3
    assert digests[0] == digest_of(items().transform(scaled(2)))


def test_fingerprints_frame_their_values():
    digests = {digest_of(items().sample_neighbor(graph(), fanouts)) for fanouts in ([1, 11], [11, 1], [111], [1, 1, 1])}
    assert len(digests) == 4


def test_fingerprints_see_only_the_features_that_are_read():
    more = hr.FeatureStore(node={**store().node, "z": torch.zeros(3)})
    plans = [items().fetch_feature(one, node=["x"]) for one in (store(), more)]
    assert fingerprint(plans[0]) == fingerprint(plans[1])


def test_equality_is_exact_at_any_size():
    ids = torch.arange(2_000_000)
    changed = ids.clone()
    changed[1_234_567] = 0
    assert hr.ItemSampler(ids) != hr.ItemSampler(changed)
    assert fingerprint(hr.ItemSampler(ids)) != fingerprint(hr.ItemSampler(changed))
    sources = torch.zeros(3_000_000, dtype=torch.int32)
    indptr = torch.tensor([0, 3_000_000, 3_000_000])
    other = sources.clone()
    other[1_234_567] = 1
    assert hr.Graph.from_csc(indptr, sources) == hr.Graph.from_csc(indptr, sources.clone())
    assert hr.Graph.from_csc(indptr, sources) != hr.Graph.from_csc(indptr, other)


def test_numpy_integers_are_integers():
    plan = hr.ItemSampler(10, batch_size=np.int64(4)).sample_neighbor(graph(), np.array([2, 3]))
    assert plan.stages[-1].fanouts == (2, 3)
    assert len(plan.loader(num_threads=np.int32(1))) == 3


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

    assert len(items().pipe(twice, abs).stages) == 3


def test_a_new_stage_becomes_a_method_and_runs():
    assert not hasattr(hr.Plan, "reverse_seeds")

    @hr.ext.verb("reverse_seeds")
    @dataclasses.dataclass(frozen=True, eq=False, repr=False)
    class ReverseSeeds(hr.ext.MapStage):
        def runner(self, settings):
            return lambda batch: (batch.replace(seeds=batch.seeds.flip(0)), {})

    try:
        assert "reverse_seeds" in hr.ext.verbs()
        batch = next(iter(hr.ItemSampler(3).reverse_seeds().loader()))
        assert batch.seeds.tolist() == [2, 1, 0]
    finally:
        del hr.Plan.reverse_seeds


@pytest.mark.parametrize("name", ["sample_neighbor", "loader", "pipe"])
def test_a_taken_verb_is_refused(name):
    with pytest.raises(hr.PlanError, match=name):
        hr.ext.verb(name)(hr.ext.MapStage)


def test_the_verbs():
    items().loader()  # for which passes make stages, and these have no verbs
    assert hr.ext.verbs() == (
        "copy_to",
        "exclude_seed_edges",
        "fetch_feature",
        "induce_subgraph",
        "make_bidirectional",
        "pad",
        "prefetch",
        "sample_in_subgraph",
        "sample_ladies",
        "sample_layer_neighbor",
        "sample_neighbor",
        "sample_pinsage",
        "sample_saint",
        "sample_shadow",
        "sample_uniform_negative",
        "to_dgl",
        "to_pyg",
        "transform",
    )


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_layer_neighbor"])
@pytest.mark.parametrize("fanouts", [[], [-2], [3, -5], 5, "10", [2.5], [True], None])
def test_bad_fanouts(verb, fanouts):
    with pytest.raises(hr.InputError, match=f"{verb}.*fanout"):
        getattr(items(), verb)(graph(), fanouts)


@pytest.mark.parametrize("importance", [-1, 1.0, True, "**", None])
def test_bad_importance(importance):
    with pytest.raises(hr.InputError, match=r'importance \(or "\*", which stops by itself\) to be an int'):
        items().sample_layer_neighbor(graph(), [2], importance=importance)


@pytest.mark.parametrize("sizes", [[], [-2], 5, "10", [2.5], [True], None])
def test_bad_layer_sizes(sizes):
    with pytest.raises(hr.InputError, match=r"sample_ladies.*layer_size"):
        items().sample_ladies(graph(), sizes)


@pytest.mark.parametrize("num_hops", [0, -1, 1.0, True, None])
def test_bad_number_of_hops(num_hops):
    with pytest.raises(hr.InputError, match="sample_in_subgraph: expected num_hops to be an integer"):
        items().sample_in_subgraph(graph(), num_hops=num_hops)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_refused_before_work_starts(value):
    weights = torch.ones(3)
    weights[1] = value
    bad = hr.Graph.from_coo([0, 1, 2], [1, 2, 0], edge_attrs={"w": weights})
    for verb in ("sample_neighbor", "sample_layer_neighbor", "sample_ladies"):
        with pytest.raises(hr.InputError, match=verb):
            getattr(hr.ItemSampler(3), verb)(bad, [2], weight="w")


def test_features_shorter_than_the_graph_are_refused_before_work_starts():
    short = hr.FeatureStore(node={"x": torch.zeros(graph().num_nodes - 1, 2)}, edge={"e": torch.zeros(3, 1)})
    with pytest.raises(hr.InputError, match="199 rows"):
        items().sample_neighbor(graph(), [2]).fetch_feature(short, node=["x"]).loader()
    with pytest.raises(hr.InputError, match="3 rows"):
        items().sample_neighbor(graph(), [2]).fetch_feature(short, edge=["e"]).loader()
    with pytest.raises(hr.InputError, match="199 rows"):
        hr.ItemSampler([199]).fetch_feature(short, labels="x").loader()


def test_edge_features_need_edge_ids():
    plan = items().sample_neighbor(graph(), [2], edge_ids=False).fetch_feature(store(), edge=["e"])
    with pytest.raises(hr.PlanError, match="edge_ids=True"):
        plan.loader()


def test_labels_of_pairs():
    plan = hr.ItemSampler(torch.zeros(3, 2, dtype=torch.int64)).fetch_feature(store(), labels="y")
    with pytest.raises(hr.PlanError, match="pairs"):
        plan.loader()


@pytest.mark.parametrize("arguments", [{"workers": -1}, {"depth": 0}, {"workers": 1.5}, {"workers": True}])
def test_bad_prefetch(arguments):
    with pytest.raises(hr.PlanError, match="prefetch"):
        items().prefetch(**arguments)


def test_bad_devices():
    with pytest.raises(hr.PlanError, match="expected the name of a device of torch, got 'gpu0'"):
        items().copy_to("gpu0")
    for wraps in ("cuda:128", "cuda:255", "cuda:256", f"cuda:{10**9}"):  # torch takes them for cuda:0 and others
        with pytest.raises(hr.PlanError, match=f"expected the name of a device of torch, got '{wraps}'"):
            items().copy_to(wraps)
    with pytest.raises(hr.PlanError, match=r"can use here, got 'hpu' \([^\n.]*torch.hpu'\); leave copy_to out"):
        items().copy_to("hpu").loader()
    plan = items().copy_to("cuda")
    if not torch.cuda.is_available():
        with pytest.raises(hr.PlanError, match=r"can use here, got 'cuda' .*; leave copy_to out"):
            plan.loader()
