"""sample_layer_neighbor(batch_dependency=...): what a plan with dependent batches gives, and what is refused."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

import headrace as hr

from plans import graph, items, timed_graph, timed_items

SEEDS = torch.arange(100)


def same_seeds(kappa, *, num_batches=12, **more):
    """Batches that differ in their random numbers alone."""
    plan = hr.ItemSampler(SEEDS.repeat(num_batches), batch_size=len(SEEDS), seed=3)
    return plan.sample_layer_neighbor(graph(), [3], batch_dependency=kappa, **more)


def edges(batch):
    return set(batch.e_id.tolist())


def shared(one, other):
    return len(edges(one) & edges(other)) / len(edges(one))


def test_the_default_is_independent_batches():
    one, other = items().sample_layer_neighbor(graph(), [5, 3]), items().sample_layer_neighbor(
        graph(), [5, 3], batch_dependency=1
    )  # fmt: skip
    assert one == other
    assert one.loader().state_dict() == other.loader().state_dict()
    assert "batch_dependency" not in str(other)


@pytest.mark.parametrize("how", [{}, {"exact": False}, {"weight": "weight"}, {"importance": 1}], ids=str)
def test_consecutive_batches_share_most_edges(how):
    """The more, the larger kappa is; across windows and epochs as said."""
    means = {}
    for kappa in (1, 4, 64):
        batches = list(same_seeds(kappa, **how).loader())
        means[kappa] = [shared(*pair) for pair in pairwise(batches)]
    assert max(means[1]) < min(means[4])
    assert max(means[4]) < min(means[64])
    assert min(means[64]) > 0.9


def test_caches_miss_less():
    """Where a cache holds a fifth of the rows and a batch reads half of that, they miss 4 times less."""
    random = torch.Generator().manual_seed(0)
    num_nodes, degree = 20_000, 40
    one = hr.Graph.from_coo(
        torch.randint(num_nodes, (num_nodes * degree,), generator=random),
        torch.arange(num_nodes).repeat_interleave(degree),
    )
    misses = {}
    for kappa in (1, 32):
        cache = hr.CachedFeature(torch.zeros(num_nodes, 1), "lru", rows=num_nodes // 5)
        plan = hr.ItemSampler(num_nodes // 4, batch_size=200, shuffle=True, seed=0).sample_layer_neighbor(
            one, [4, 4], layer_dependency=True, batch_dependency=kappa
        )
        for batch in plan.loader():
            cache.read(batch.n_id)
        misses[kappa] = cache.stats()["misses"]
    assert misses[32] < misses[1] / 2.5


def test_epochs_begin_anew():
    loader = same_seeds(64).loader()
    first, second = ([*loader] for _ in loader.epochs(2))
    assert shared(first[-1], second[0]) < 0.8 < shared(second[0], second[1])


def test_neighborhoods_that_never_change():
    """Over batches and epochs; other seeds of the plan have others."""
    loader = same_seeds(math.inf).loader()
    found = {frozenset(edges(batch)) for _ in loader.epochs(2) for batch in loader}
    assert len(found) == 1
    plan = hr.ItemSampler(SEEDS, batch_size=len(SEEDS), seed=4)
    (other,) = plan.sample_layer_neighbor(graph(), [3], batch_dependency=math.inf).loader()
    assert edges(other) not in found


def test_hops_are_independent_unless_they_depend_on_each_other():
    def neighborhoods(**more):
        plan = hr.ItemSampler(SEEDS, batch_size=len(SEEDS), seed=3)
        (batch,) = plan.sample_layer_neighbor(graph(), [3, 3], batch_dependency=math.inf, **more).loader()
        inner, outer = batch.blocks[1], batch.blocks[0]
        mine = outer.edge_index[1] < len(SEEDS)
        return set(inner.edge_ids.tolist()), set(outer.edge_ids[mine].tolist())

    one, other = neighborhoods(layer_dependency=True)
    assert one == other
    one, other = neighborhoods()
    assert one != other


def test_any_batch_is_found_from_its_index_alone():
    whole = [batch.digest() for batch in same_seeds(4).loader()]
    loader = same_seeds(4).loader()
    iteration = iter(loader)
    for _ in range(6):
        next(iteration)
    state = loader.state_dict()
    with same_seeds(4).loader(prefetch=False) as resumed:
        resumed.load_state_dict(state)
        assert [batch.digest() for batch in resumed] == whole[6:]


def test_a_checkpoint_of_another_dependency_is_refused():
    state = same_seeds(4).loader().state_dict()
    with pytest.raises(hr.StateError, match="stage sample_layer_neighbor differs"):
        same_seeds(5).loader().load_state_dict(state)


@pytest.mark.parametrize("kappa", [0, -1, -math.inf, math.nan, 1.5, 4.0, True, "4", None, 2**31])
def test_what_is_no_dependency_is_refused(kappa):
    with pytest.raises(
        hr.InputError,
        match=r"sample_layer_neighbor: expected batch_dependency \(or math\.inf, for neighbourhoods that never "
        r"change\) to be an integer from 1 to 2147483647, got .*",
    ):
        same_seeds(kappa)


@pytest.mark.parametrize("verb", ["sample_neighbor", "sample_ladies"])
def test_other_samplers_have_none(verb):
    with pytest.raises(hr.PlanError, match="sample_layer_neighbor alone has batches that depend on each other"):
        getattr(items(), verb)(graph(), [3], batch_dependency=4)


@pytest.mark.parametrize("kappa", [2, math.inf])
@pytest.mark.parametrize("trees", [{"disjoint": True}, {"time": "time"}], ids=str)
def test_trees_are_refused_which_share_no_random_numbers(kappa, trees):
    with pytest.raises(hr.InputError, match="expected batch_dependency=1 where each seed grows a tree of its own, got"):
        timed_items().sample_layer_neighbor(timed_graph(), [3], batch_dependency=kappa, **trees)
    timed_items().sample_layer_neighbor(timed_graph(), [3], batch_dependency=1, **trees).loader()
