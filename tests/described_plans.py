"""Plans for machines with GPUs, as `explain()` shows what would run there."""

from __future__ import annotations

from explained import names

import headrace as hr

from plans import graph, items, store

GPU = hr.Machine(cores=2, gpus=1)


def fetched(store=store) -> hr.Plan:
    """A plan of one hop whose rows are fetched."""
    return items().sample_neighbor(graph(), [3]).fetch_feature(store(), node=["x"])


def names_on_gpu(plan: hr.Plan, machine: hr.Machine = GPU, **switches: bool) -> list[str]:
    """The names of the stages that run, by default on a machine with a GPU."""
    return names(plan, machine, **switches)


def copied_first(plan: hr.Plan, device: str = "cuda") -> hr.Plan:
    """The plan with a copy to a GPU before its sampler."""
    return hr.Plan([plan.stages[0], *hr.ItemSampler(1).copy_to(device).stages[1:], *plan.stages[1:]])
