"""What minibatches of many plans cost a GPU beside its kernels: no wait of the host comes in unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

import headrace as hr
from headrace.cuda.backend import stand_in

from cuda_host.device_work import CountingStandIn
from gpu_plans import GPU, copied_first
from plans import PLANS, graph, items, pairs, store

#: A machine whose GPU has no room for the graph.
SMALL = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 10,))


class Most(NamedTuple):
    """The most that a minibatch takes in the second epoch: waits, launches, and operations of torch."""

    waits: int
    launches: int
    operations: int


def neighbor(**how: object) -> hr.Plan:
    return items().sample_neighbor(graph(), [4, 3, 2], **how).fetch_feature(store(), node=["x"])


def labor(**how: object) -> hr.Plan:
    return items().sample_layer_neighbor(graph(), [4, 3, 2], **how).fetch_feature(store(), node=["x"])


def links() -> hr.Plan:
    plan = pairs().sample_uniform_negative(graph(), 2).exclude_seed_edges()
    return plan.sample_neighbor(graph(), [4, 3]).fetch_feature(store(), node=["x"])


def through_cache() -> hr.Plan:
    rows, _ = store().node["x"].read(torch.arange(graph().num_nodes))
    cached = hr.FeatureStore(node={"x": hr.CachedFeature(rows, rows=40, place="cuda")})
    return items().sample_neighbor(graph(), [4, 3]).fetch_feature(cached, node=["x"])


#: Passes that are off for a plan.
SWITCHES: dict[str, dict[str, bool]] = {"neighbor, hops one by one": {"fuse_sampling": False}}

TABLE: dict[str, tuple[Callable[[], hr.Plan], hr.Machine, Most]] = {
    "neighbor": (neighbor, GPU, Most(1, 20, 9)),
    "neighbor, hops one by one": (neighbor, GPU, Most(6, 28, 18)),
    "neighbor, new nodes": (lambda: neighbor(expand="new"), GPU, Most(1, 23, 15)),
    "neighbor by weight": (PLANS["weighted"], GPU, Most(1, 15, 15)),
    "all in-edges": (PLANS["full"], GPU, Most(1, 18, 7)),
    "LABOR": (labor, GPU, Most(1, 20, 9)),
    "LABOR, new nodes": (lambda: labor(expand="new"), GPU, Most(1, 23, 15)),
    "LABOR by Poisson": (lambda: labor(exact=False), GPU, Most(1, 26, 12)),
    "LABOR by weight": (PLANS["weighted_labor"], GPU, Most(1, 15, 9)),
    "LABOR-1": (lambda: labor(importance=1), GPU, Most(1, 56, 39)),
    "LABOR-*": (lambda: labor(importance="*"), GPU, Most(1, 182, 42)),
    "LABOR, graph in memory of the host": (labor, SMALL, Most(1, 47, 111)),
    "types": (PLANS["typed"], GPU, Most(2, 28, 99)),
    "types, LABOR": (PLANS["typed_labor"], GPU, Most(2, 19, 46)),
    "times": (PLANS["temporal"], GPU, Most(1, 24, 10)),
    "times, LABOR": (PLANS["temporal_labor"], GPU, Most(1, 24, 72)),
    "trees": (PLANS["disjoint"], GPU, Most(1, 24, 10)),
    "links": (links, GPU, Most(4, 28, 75)),
    "links, of a rank": (links, hr.Machine(cores=2, gpus=1, world_size=2), Most(4, 28, 75)),
    "links, by weight": (PLANS["link_excluding_weighted"], GPU, Most(2, 32, 74)),
    "rows through a cache": (through_cache, GPU, Most(1, 19, 9)),
}


@pytest.fixture
def backend():
    """Let the CPU stand in for a GPU; memory that nobody has written holds no number."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    counting = CountingStandIn()
    with stand_in(counting):
        yield counting
    torch.use_deterministic_algorithms(False)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_minibatches_wait_and_launch_no_more(name, backend):
    make, machine, most = TABLE[name]
    found = most_of(copied_first(make()), machine, backend, **SWITCHES.get(name, {}))
    assert found.waits == most.waits
    assert found.launches <= most.launches
    assert found.operations <= most.operations


def most_of(plan: hr.Plan, machine: hr.Machine, backend: CountingStandIn, **switches: bool) -> Most:
    """The most that a batch takes on its side stream, and behind that on the stream of the training loop."""
    on_main = []
    with plan.loader(machine=machine, rank=0, world_size=machine.world_size, **switches) as loader:
        for _ in loader:
            pass  # tables are made, and it is known what batches take
        backend.batches.clear()
        batches = iter(loader)
        for _ in range(len(loader)):
            with backend.counting() as work:
                next(batches)
            on_main.append(work)
    counts = [
        [(len(one.waits), len(one.launches), len(one.operations)) for one in works]
        for works in (backend.batches, on_main)
    ]
    print(*backend.batches[:1], *on_main[:1], sep="\n")  # for whoever looks why a test fails
    return Most(*(sum(column) for column in zip(*(map(max, zip(*one, strict=True)) for one in counts), strict=True)))


@pytest.mark.parametrize(
    ("waits", "call"),
    [
        (1, lambda there: there.tolist()),
        (1, lambda there: int(there[-1])),
        (1, lambda there: bool((there < 0).any())),
        (1, lambda there: there.sum().item()),
        (1, lambda there: there.nonzero()),
        (1, lambda there: there[there > 2]),
        (1, lambda there: there[[0, -1]]),
        (1, lambda there: there.unique()),
        (1, lambda there: there.cpu().tolist()),
        (1, lambda there: there.to("cpu")[:1]),
        (1, lambda there: there.repeat_interleave(there)),
        (1, lambda there: torch.tensor([3], device=there.device)),
        (1, lambda there: torch.arange(3, device="cpu").to(there.device)),
        (2, lambda there: torch.tensor([3], device=there.device).tolist()),
        (0, lambda there: there.to("cpu", non_blocking=True)),
        (0, lambda there: torch.arange(3, device="cpu").tolist()),
        (0, lambda there: torch.full((1,), 3, device=there.device)),
        (0, lambda there: there.repeat_interleave(there, output_size=10)),
        (0, lambda there: there[1:] + there.cumsum(0)[:-1]),
    ],
)
def test_waits_are_found(waits, call, backend):
    with backend.counting() as work:
        there = torch.arange(5, device=torch.device("cpu"))
        call(there)
    assert len(work.waits) == waits


def test_operations_are_those_of_the_gpu(backend):
    with backend.counting() as work:
        (torch.arange(5, device="cpu") + 1).cumsum(0)
        assert work.operations == []
        there = torch.empty(5, dtype=torch.int64, device=torch.device("cpu"))
        there[:2] = torch.zeros(2, dtype=torch.int64, device=torch.device("cpu"))
        there.view(-1)[1:].cumsum(0)
    assert work.operations == ["zeros", "copy_", "cumsum"]
