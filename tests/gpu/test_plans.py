"""Whole plans on a GPU: the minibatches of the CPU, bit by bit, whatever runs where."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import PLANS

pytestmark = pytest.mark.twins


def digests(plan: hr.Plan, machine: hr.Machine, **switches: bool) -> list[str]:
    with plan.loader(machine=machine, **switches) as loader:
        return [batch.digest() for batch in loader]


def copied(plan: hr.Plan, position: int) -> hr.Plan:
    """The plan with a copy to the GPU at a position."""
    stages = list(plan.stages)
    stages[position:position] = hr.ItemSampler(1).copy_to("cuda").stages[1:]
    return hr.Plan(stages)


@pytest.mark.slow
@pytest.mark.combinations(12)
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("first", [True, False], ids=["sampled there", "copied there"])
def test_batches_are_those_of_the_cpu(name, first, gpu):
    plan = PLANS[name]()
    expected = digests(plan, hr.Machine(cores=2))
    assert digests(copied(plan, 1 if first else len(plan.stages)), gpu.machine) == expected


@pytest.mark.slow
@pytest.mark.combinations(4)
@pytest.mark.parametrize("off", ["uva_gather", "stream_overlap", "fuse_sampling", "prefetch"])
@pytest.mark.parametrize("name", ["neighbor", "weighted", "labor_star", "typed", "typed_temporal"])
def test_switches_change_nothing(name, off, gpu):
    plan = PLANS[name]()
    expected = digests(plan, hr.Machine(cores=2))
    assert digests(copied(plan, 1), gpu.machine, **{off: False}) == expected
