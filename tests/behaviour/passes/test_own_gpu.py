"""own_gpu: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import re

import pytest
from described_plans import copied_first, fetched
from explained import stages

import headrace as hr


def places(plan: hr.Plan, machine: hr.Machine) -> set[hr.Place]:
    """The places of the batches that come out."""
    text = plan.explain(machine=machine, prefetch=False, stream_overlap=False)
    copies = [re.fullmatch(r"copy_to\('(.+)'\)", stage) for stage in stages(text)]
    return {hr.Place.parse(copy.group(1)) for copy in copies if copy is not None}


@pytest.mark.parametrize("plan", [copied_first(fetched()), fetched().copy_to("cuda")], ids=["first", "last"])
def test_fires_where_there_are_several(plan):
    machine = hr.Machine(gpus=4, world_size=2, rank=1, current_gpu=3)
    assert places(plan, machine) == {hr.Place("cuda", 3)}
    assert "copy_to('cuda:3')" in plan.explain(machine=machine, prefetch=False).split("plan as written")[0]


def test_refuses_copies_that_name_one_and_machines_with_one():
    assert places(fetched().copy_to("cuda:1"), hr.Machine(gpus=4, current_gpu=3)) == {hr.Place("cuda", 1)}
    assert places(fetched().copy_to("cpu"), hr.Machine(gpus=4, current_gpu=3)) == {hr.Place("cpu")}
    assert places(fetched().copy_to("cuda"), hr.Machine(gpus=1)) == {hr.Place("cuda")}
