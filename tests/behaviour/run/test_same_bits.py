"""Promises 1 and 3: threads, workers, passes and resuming never change a bit of a minibatch."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr

from contracts import NUM_EPOCHS, digests, with_workers
from plans import PLANS

pytestmark = pytest.mark.slow


@cache
def expected(name: str) -> tuple[str, ...]:
    """One thread, no worker, no optional pass."""
    plan = with_workers(PLANS[name](), 0)
    return tuple(digests(plan.loader(num_threads=1, fuse_sampling=False, prefetch=False)))


@pytest.mark.combinations(24)
@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_same_bits(name, data):
    threads = data.draw(st.sampled_from([1, 2, 4]), label="threads")
    workers = data.draw(st.sampled_from([None, 0, 1, 3]), label="prefetch workers")
    fused = data.draw(st.booleans(), label="fused")
    start = data.draw(st.integers(0, len(expected(name))), label="resumed at batch")
    plan = with_workers(PLANS[name](), workers)
    loader = plan.loader(num_threads=threads, fuse_sampling=fused)
    if start > 0:
        first = plan.loader(num_threads=1)
        taken = 0
        for _ in first.epochs(NUM_EPOCHS):
            for _batch in first:
                taken += 1
                if taken == start:
                    state = first.state_dict()
                    break
            if taken == start:
                break
        loader.load_state_dict(state)
    assert tuple(digests(loader)) == expected(name)[start:]


@cache
def big_graph() -> tuple[hr.Graph, hr.FeatureStore]:
    """Large enough that every kernel gives work to several threads."""
    generator = torch.Generator().manual_seed(3)
    src, dst = torch.randint(0, 20_000, (2, 300_000), generator=generator)
    weight = torch.rand(300_000, generator=generator)
    graph = hr.Graph.from_coo(src, dst, num_nodes=20_000, edge_attrs={"w": weight})
    return graph, hr.FeatureStore(node={"x": torch.randn(20_000, 16, generator=generator)})


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("sample_neighbor", {}),
        ("sample_neighbor", {"replace": True}),
        ("sample_neighbor", {"weight": "w"}),
        ("sample_layer_neighbor", {}),
        ("sample_layer_neighbor", {"exact": False}),
        ("sample_layer_neighbor", {"weight": "w"}),
    ],
)
def test_same_bits_where_threads_share_the_work(sampler, options, fused):
    graph, store = big_graph()
    plan = hr.ItemSampler(graph.num_nodes, batch_size=6_000, shuffle=True, seed=2)
    plan = getattr(plan, sampler)(graph, [6, 4], **options).fetch_feature(store, node=["x"])
    found = [digests(plan.loader(num_threads=threads, fuse_sampling=fused), 1) for threads in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


MACHINES = [hr.Machine(cores=1), hr.Machine(cores=2), hr.Machine(cores=64, gpus=8)]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_same_bits_for_random_plans_and_machines(data):
    """A random chain of stages gives the same batches under any switches, on any machine."""
    from plans import double, graph, items, store, unchanged

    plan = items(batch_size=data.draw(st.integers(1, 60)), shuffle=data.draw(st.booleans()))
    sampler = data.draw(st.sampled_from(["sample_neighbor", "sample_layer_neighbor"]))
    fanouts = data.draw(st.lists(st.integers(-1, 6), min_size=1, max_size=3))
    plan = getattr(plan, sampler)(graph(), fanouts, expand=data.draw(st.sampled_from(["all", "new"])))
    plan = plan.fetch_feature(store(), node=["x"])
    for function in data.draw(st.lists(st.sampled_from([unchanged, double]), max_size=2)):
        plan = plan.transform(function)
    if data.draw(st.booleans()):
        plan = plan.copy_to("cpu")
    reference = digests(plan.loader(num_threads=1, fuse_sampling=False, prefetch=False), 1)
    switches = {name: data.draw(st.booleans()) for name in ("fuse_sampling", "prefetch")}
    loader = plan.loader(machine=data.draw(st.sampled_from(MACHINES)), num_threads=2, **switches)
    assert digests(loader, 1) == reference
