"""Plans taken for loaders, and arguments that stages do not have: errors that say what to do."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch

import headrace as hr

from plans import graph, items

STAGES = {name: getattr(hr.Plan, name) for name in hr.ext.verbs()}


def sampled() -> hr.Plan:
    return items().sample_neighbor(graph(), [3])


def pairs() -> hr.Plan:
    return hr.ItemSampler(torch.tensor([[0, 1], [1, 2]]))


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (lambda plan: [batch for batch in plan], r"call \.loader\(\)"),  # noqa: C416 - the loop that users write
        (list, r"call \.loader\(\)"),
        (next, r"next\(iter\(plan\.loader\(\)\)\)"),
        (len, r"len\(plan\.loader\(\)\)"),
        (lambda plan: plan[0], r"plan\.stages, .*next\(iter\(plan\.loader\(\)\)\)"),
    ],
)
def test_a_plan_is_no_loader(use, advice):
    with pytest.raises(hr.PlanError, match=rf"expected .* plan.*\(ends in sample_neighbor\).*{advice}") as caught:
        use(sampled())
    assert isinstance(caught.value, hr.PlanError)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (next, r"got a loader; iterate with `for batch in loader`, .* next\(iter\(loader\)\)"),
        (lambda loader: loader[0], r"got loader\[0\]; .* next\(iter\(loader\)\)"),
    ],
)
def test_a_loader_is_neither_an_iterator_nor_a_list(use, advice):
    with sampled().loader() as loader:
        with pytest.raises(hr.PlanError, match=advice):
            use(loader)
        assert len(list(loader)) == len(loader)


@pytest.mark.parametrize(
    "name",
    [
        *("dataset", "batch_size", "sampler", "batch_sampler", "drop_last", "collate_fn", "generator", "in_order"),
        *("num_workers", "worker_init_fn", "persistent_workers", "prefetch_factor", "multiprocessing_context"),
        *("pin_memory", "pin_memory_device", "timeout"),
    ],
)
def test_attributes_of_a_torch_loader_are_answered(name):
    """On a loader, and on a plan that was taken for one; a near name says nothing."""
    with sampled().loader() as loader:
        for one in (loader, sampled()):
            assert not hasattr(one, name)
            with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; (?!did you mean|dir\(\))"):
                getattr(one, name)


@pytest.mark.parametrize("name", [one for one in dir(hr.Loader) if not one.startswith("_")])
def test_a_plan_is_asked_for_something_of_its_loader(name):
    if not hasattr(hr.Plan, name):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; .*plan\.loader\(\)\.{name}"):
            getattr(sampled(), name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NeighborLoader", "import headrace.pyg"),
        ("Neighborloader", "import headrace.pyg"),
        ("neighbor_sampler", r"\.sample_neighbor\(graph"),
        ("sample_neighbor", r"write hr\.ItemSampler\(ids, batch_size=\.\.\.\)\.sample_neighbor\("),
        ("FetchFeature", r"\.fetch_feature\(\.\.\.\), a plan has the verbs"),
        ("Grahp", "did you mean Graph"),
    ],
)
def test_names_that_the_package_does_not_have(name, words):
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; .*{words}"):
        getattr(hr, name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("sample_neighbour", "sample_neighbor"),
        ("sample_neighbors", "sample_neighbor"),
        ("fetch_features", "fetch_feature"),
        ("Loader", "loader"),
        ("copyto", "copy_to"),
    ],
)
def test_verbs_with_a_typo(name, meant):
    for plan in (sampled(), items()):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; did you mean {meant}\?"):
            getattr(plan, name)
    with sampled().loader() as loader, pytest.raises(AttributeError, match=r"'set_epochs'; did you mean set_epoch\?"):
        loader.set_epochs(3)


def test_no_name_is_meant_that_users_do_not_write():
    """A source has attributes that passes read, and one of many is always a little like another word."""
    for name, words in (
        ("batch", r"did you mean batch_size\?"),
        ("fetch", r"did you mean (pre)?fetch"),
        ("watch", "dir"),
    ):
        with pytest.raises(AttributeError, match=rf"ItemSampler has no attribute '{name}'; {words}"):
            getattr(items(), name)


def test_a_loader_that_does_not_know_its_length_is_true():
    nodes = pytest.importorskip("torchdata.nodes")
    loader = hr.ext.NodeSource(nodes.IterableWrapper([[1, 2], [3]]), seed=0).sample_neighbor(graph(), [3]).loader()
    assert loader
    assert len(list(loader)) == 2
    with pytest.raises(hr.PlanError, match=r"len\(loader\): expected .* got .* a torchdata node; count"):
        len(loader)


class Foreign:
    """A graph of another library, by what it has."""

    def __init__(self, sign):
        setattr(self, sign, None)


@pytest.mark.parametrize(
    ("sign", "maker"),
    [("edge_index", "from_pyg"), ("canonical_etypes", "from_dgl"), ("tocoo", "from_scipy"), ("anything", "from_coo")],
)
def test_graphs_of_other_libraries_are_told_what_takes_them(sign, maker):
    with pytest.raises(hr.InputError, match=rf"^sample_neighbor: expected an hr\.Graph, got Foreign; .*\.{maker}"):
        items().sample_neighbor(Foreign(sign), [3])


@pytest.mark.parametrize("more", [{}, {"num_nodes": 5}, {"dst": 5}])
@pytest.mark.parametrize("edge_index", [torch.zeros(2, 3, dtype=torch.int64), np.zeros((2, 3), dtype=np.int64)])
def test_an_edge_index_is_two_arrays(edge_index, more):
    with pytest.raises(hr.InputError, match=r"got int64\[2, 3\] as src.*from_coo\(edge_index\[0\], edge_index\[1\]"):
        hr.Graph.from_coo(edge_index, **more)


def test_a_plan_is_true():
    assert sampled()


def test_signatures_stay_readable():
    assert {"items", "batch_size", "shuffle"} <= set(inspect.signature(hr.ItemSampler).parameters)
    for verb in STAGES:
        assert verb in dir(items())
        of_stage = [name for name in inspect.signature(_stage_of(verb)).parameters if name != "upstream"]
        assert list(inspect.signature(getattr(items(), verb)).parameters) == of_stage


def test_a_plan_can_be_copied_and_pickled():
    plan = sampled()
    assert copy.deepcopy(plan) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan  # noqa: S301 - our own


@pytest.mark.parametrize("dump", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("running", [False, True])
def test_a_loader_cannot_but_says_what_can(dump, running):
    with sampled().loader() as loader:
        iterator = iter(loader)
        if running:
            next(iterator)
        for one in (loader, iterator):
            with pytest.raises(hr.HeadraceError, match=r"copy or pickle .*plan and loader\.state_dict\(\)"):
                dump(one)
        plan, state = pickle.loads(pickle.dumps((sampled(), loader.state_dict())))  # noqa: S301 - our own
        rest = [batch.digest() for batch in iterator]
    with plan.loader() as again:
        again.load_state_dict(state)
        assert [batch.digest() for batch in again] == rest


def test_a_layer_of_dgl_is_told_what_to_take():
    block = next(iter(sampled().loader())).blocks[0]
    with pytest.raises(AttributeError, match=r"got 'local_scope'; .*layer\(block\.to_dgl\(\), h\)"):
        block.local_scope()  # what every layer of DGL asks first
    assert not hasattr(block, "srcdata")
    assert repr(copy.deepcopy(block)) == repr(block)


def _stage_of(verb: str) -> type[hr.Plan]:
    return STAGES[verb].__wrapped__
