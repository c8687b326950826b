"""Rows of graphs that a GPU has no room for, where the CPU stands in for it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hand_made import hand_made

import headrace as hr
from headrace.cuda.backend import stand_in
from headrace.ops.sampling.rules import LaborRule
from headrace.pipeline.data.graph_machinery import HopArrays, arrays_on, fits_on_gpu, kept
from headrace.pipeline.lowered._hop import Hop
from headrace.pipeline.lowered.compact import Compact
from headrace.pipeline.lowered.gpu.fetch_rows import FetchRows, SampleFetched
from headrace.pipeline.passes import rewrite
from headrace.pipeline.plan.verify import LOWERED, verify

from cuda_host.stand_in import StandIn
from gpu_plans import copied_first, digests
from plans import PLANS, graph, items, store

#: The graph takes some 13 kB: more than half of the memory.
SMALL = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 13,))

WHOLE_ROWS = {
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3]),
    "labor_poisson": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], exact=False),
    "labor_new": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], expand="new", edge_ids=False),
    "labor_of_dependent_batches": lambda plan: plan.sample_layer_neighbor(graph(), [5, -1], batch_dependency=3),
    "all": lambda plan: plan.sample_neighbor(graph(), [-1, -1]),
    "in_subgraph_new": lambda plan: plan.sample_in_subgraph(graph(), num_hops=2, expand="new"),
}


def fetches(plan, machine=SMALL, **switches):
    """Whether some stage fetches rows, where hops are fused."""
    final = rewrite(plan, machine, {"prefetch": False, **switches}).final
    return any(getattr(stage, "fetch", False) or isinstance(stage, FetchRows) for stage in final.stages)


def test_what_fits_is_what_is_copied(monkeypatch):
    """One function decides both."""
    num_bytes = sum(array.nbytes for array in (graph().indptr, graph().indices, graph().edge_permutation))
    for memory, fits in ((2 * num_bytes, True), (2 * num_bytes - 1, False)):
        assert fits_on_gpu(graph(), None, memory) == fits
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=memory: (free, 1 << 40))
        arrays = [graph().indptr, graph().indices, graph().edge_permutation, None]
        monkeypatch.setattr("headrace.ops.gpu.pin", lambda tensor: lambda: None)
        placed = hr.ops.gpu.placed(arrays, torch.device("meta"))
        assert [array is None or array.is_meta for array in placed] == [fits, fits, fits, True]


def test_what_has_been_copied_fits():
    """It has taken the memory that is no longer free."""
    fresh = replace(graph())
    there = SimpleNamespace(is_cuda=True, device=torch.device("cuda", 1))
    kept(fresh).tables["arrays on cuda:1"] = HopArrays(there, there, None, None, None)
    kept(fresh).tables["arrays on cpu"] = arrays_on(fresh, torch.device("cpu"))
    for device, fires in (("cuda", False), ("cuda:1", False), ("cuda:0", True)):
        plan = items().copy_to(device).sample_layer_neighbor(fresh, [3])
        machine = hr.Machine(gpus=2, gpu_memory=(5, 5), current_gpu=1)
        assert fetches(plan, machine) == fires


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_same_result(name):
    plan = WHOLE_ROWS[name](items().copy_to("cuda")).fetch_feature(store(), node=["x"])
    expected = digests(WHOLE_ROWS[name](items()).fetch_feature(store(), node=["x"]), hr.Machine())
    assert digests(plan, SMALL, graph_cache=False) == expected
    assert digests(plan, SMALL, fuse_sampling=False) == expected
    assert digests(plan, SMALL, split_sample=False) == expected


@pytest.mark.slow
@pytest.mark.combinations(20)
@pytest.mark.parametrize("name", PLANS)
def test_same_result_of_every_plan(name):
    """Also of those that are not split, or of which a part is."""
    assert digests(copied_first(PLANS[name]()), SMALL, graph_cache=False) == digests(PLANS[name](), hr.Machine())


@pytest.mark.parametrize("expand", ["all", "new"])
def test_lowered_stages_run_on_the_cpu_as_well(expand):
    parts = [
        FetchRows(graph(), expand=expand),
        SampleFetched(Hop(graph(), LaborRule(4), key_layer=0), layer=0, expand=expand),
    ]
    split = hr.Plan([*items().stages, *parts, Compact(graph(), expand=expand)])
    whole = items().sample_layer_neighbor(graph(), [4], expand=expand)
    assert [batch.digest() for batch in hand_made(split).loader()] == digests(whole, hr.Machine())


@pytest.mark.parametrize("fused", [False, True])
def test_what_is_fetched_is_counted(fused):
    plan = items().copy_to("cuda").sample_neighbor(graph(), [-1, -1])
    with stand_in(StandIn()), plan.loader(machine=SMALL, fuse_sampling=fused) as loader:
        edges = sum(block.num_edges for batch in loader for block in batch.blocks)
        assert loader.stats()["sample_neighbor"]["fetched_edges"] == edges


@pytest.mark.parametrize("function", ["pipeline.lowered.gpu.fetch_rows.fetch_rows", "cuda.fetch_rows.copy_lines"])
def test_rows_without_room_are_sampled_in_place(function, monkeypatch):
    def refuse(*arguments, **options):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    expected = digests(WHOLE_ROWS["labor"](items()), hr.Machine())
    monkeypatch.setattr(f"headrace.{function}", refuse)
    plan = WHOLE_ROWS["labor"](items().copy_to("cuda"))
    with pytest.warns(UserWarning, match="rows are sampled in place, as CUDA out of memory"):
        assert digests(plan, SMALL, fuse_sampling=function.startswith("cuda")) == expected


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((FetchRows(graph()),), "cannot end a plan: nothing is sampled of its rows"),
        ((FetchRows(graph()), Compact(graph())), "fetched rows to be sampled by the very next stage"),
        (
            (FetchRows(graph()), SampleFetched(Hop(graph(), LaborRule(3), key_layer=0), layer=0, expand="new")),
            "its graph and expand to be those of the rows",
        ),
        ((SampleFetched(Hop(graph(), LaborRule(3), key_layer=0), layer=0),), "it takes frontier with its rows"),
    ],
    ids=["end", "compact", "expand", "no rows"],
)
def test_rows_and_their_hop_stand_together(stages, message):
    with pytest.raises(hr.PlanError, match=message):
        verify(hr.Plan([*items().stages, *stages]), LOWERED)
