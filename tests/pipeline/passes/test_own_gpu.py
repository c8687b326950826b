"""own_gpu: fires, refuses, cannot be switched off, gives the same result."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.pipeline.passes import rewrite

from gpu_plans import copied_first, digests, fetched


def places(plan: hr.Plan, machine: hr.Machine) -> set[hr.Place]:
    """The places of the batches that come out."""
    final = rewrite(plan, machine, {"prefetch": False, "stream_overlap": False}).final
    return {stage.moves_to for stage in final.stages if stage.moves_to is not None}


@pytest.mark.parametrize("plan", [copied_first(fetched()), fetched().copy_to("cuda")], ids=["first", "last"])
def test_fires_where_there_are_several(plan):
    machine = hr.Machine(gpus=4, world_size=2, rank=1, current_gpu=3)
    assert places(plan, machine) == {hr.Place("cuda", 3)}
    assert "copy_to('cuda:3')" in rewrite(plan, machine, {"prefetch": False}).explain().split("plan as written")[0]


def test_refuses_copies_that_name_one_and_machines_with_one():
    assert places(fetched().copy_to("cuda:1"), hr.Machine(gpus=4, current_gpu=3)) == {hr.Place("cuda", 1)}
    assert places(fetched().copy_to("cpu"), hr.Machine(gpus=4, current_gpu=3)) == {hr.Place("cpu")}
    assert places(fetched().copy_to("cuda"), hr.Machine(gpus=1)) == {hr.Place("cuda")}


def test_cannot_be_switched_off():
    with pytest.raises(hr.PlanError, match="own_gpu"):
        rewrite(fetched(), hr.Machine(), {"own_gpu": False})


def test_same_result():
    machine = hr.Machine(gpus=2, current_gpu=1)
    assert digests(fetched().copy_to("cuda"), machine) == digests(fetched(), hr.Machine())
