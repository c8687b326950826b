"""split_sample: fires, refuses, is switched off; its results are compared where the CPU stands in for a GPU."""

from __future__ import annotations

import pytest
from explained import names, one_line, stages

import headrace as hr

from plans import graph, items, typed_graph

#: The graph takes some 13 kB: more than half of the memory of the one, less than that of the other.
SMALL = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 13,))
LARGE = hr.Machine(cores=2, gpus=1, gpu_memory=(1 << 15,))

SPLIT = ["fetch_rows", "sample_fetched", "compact"]
WHOLE_ROWS = {
    "labor": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3]),
    "labor_poisson": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], exact=False),
    "labor_new": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], expand="new", edge_ids=False),
    "labor_of_dependent_batches": lambda plan: plan.sample_layer_neighbor(graph(), [5, -1], batch_dependency=3),
    "all": lambda plan: plan.sample_neighbor(graph(), [-1, -1]),
    "in_subgraph_new": lambda plan: plan.sample_in_subgraph(graph(), num_hops=2, expand="new"),
}
OTHERS = {
    "neighbor": lambda plan: plan.sample_neighbor(graph(), [5, 3]),
    "replace": lambda plan: plan.sample_neighbor(graph(), [5, 3], replace=True),
    "weighted": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], weight="weight"),
    "all by weight": lambda plan: plan.sample_neighbor(graph(), [-1, -1], weight="weight"),
    "importance": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], importance=1),
    "ladies": lambda plan: plan.sample_ladies(graph(), [9, 9]),
    "trees": lambda plan: plan.sample_layer_neighbor(graph(), [5, 3], disjoint=True),
    "types": lambda plan: plan.sample_layer_neighbor(typed_graph(), [5, 3]),
}


def fetches(plan, machine=SMALL, **switches):
    """Whether some stage fetches rows, where hops are fused."""
    text = plan.explain(machine=machine, prefetch=False, **switches)
    return any("fetch=True" in stage or stage.startswith("fetch_rows(") for stage in stages(text))


@pytest.mark.parametrize("name", WHOLE_ROWS)
def test_fires_on_hops_that_look_at_whole_rows(name):
    plan = WHOLE_ROWS[name](items().copy_to("cuda"))
    assert names(plan, SMALL, prefetch=False) == ["item_sampler", "copy_to", "sample_fused"]
    assert fetches(plan)
    split = names(plan, SMALL, prefetch=False, fuse_sampling=False)
    assert split == ["item_sampler", "copy_to", *SPLIT * 2]


def test_fires_on_single_hops_and_leaves_the_others():
    plan = items().copy_to("cuda").sample_neighbor(graph(), [-1, 3])
    assert fetches(plan)
    split = names(plan, SMALL, prefetch=False, fuse_sampling=False)
    assert split == ["item_sampler", "copy_to", *SPLIT, "sample_hop", "compact"]


def test_fires_for_the_gpu_that_is_copied_to():
    machine = hr.Machine(cores=2, gpus=2, gpu_memory=(1 << 30, 1 << 13))
    for device, fires in (("cuda:0", False), ("cuda", False), ("cuda:1", True)):
        plan = items().copy_to(device).sample_layer_neighbor(graph(), [3])
        assert fetches(plan, machine) == fires


@pytest.mark.parametrize("name", OTHERS)
def test_refuses_other_rules(name):
    assert not fetches(OTHERS[name](items().copy_to("cuda")))
    assert not fetches(OTHERS[name](items().copy_to("cuda")), fuse_sampling=False)


@pytest.mark.parametrize(
    "machine",
    [LARGE, hr.Machine(cores=2, gpus=1), hr.Machine(cores=2, gpu_memory=(1 << 13,))],
    ids=["it fits", "memory not known", "no GPU"],
)
def test_refuses_graphs_that_fit_and_machines_that_are_not_known(machine):
    assert not fetches(WHOLE_ROWS["labor"](items().copy_to("cuda")), machine)


def test_refuses_batches_in_memory_of_the_cpu():
    for device in ("cpu", "meta"):
        assert not fetches(WHOLE_ROWS["labor"](items().copy_to(device)))
    assert not fetches(WHOLE_ROWS["labor"](items()).copy_to("cuda"))


def test_is_switched_off():
    plan = WHOLE_ROWS["labor"](items().copy_to("cuda"))
    assert not fetches(plan, split_sample=False)


def test_explain_shows_it():
    plan = WHOLE_ROWS["labor"](items().copy_to("cuda"))
    text = one_line(plan.explain(machine=SMALL))
    assert "pass split_sample (same batches): sample_fused of a graph larger than a GPU's memory" in text
    assert "fetch=True, cache=GraphCache(2,048 bytes)" in text
    assert "split_sample (no GPU)" in one_line(WHOLE_ROWS["labor"](items()).explain(machine=hr.Machine()))
