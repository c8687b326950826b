"""plan.explain(): the plan of a machine that is not here, and nothing is run for it."""

from __future__ import annotations

import pytest

import headrace as hr

from plans import graph, items, store

EIGHT = hr.Machine(cores=64, memory=512 << 30, gpus=8, gpu_memory=(80 << 30,) * 8, world_size=8, rank=3)


def plan() -> hr.Plan:
    return items().copy_to("cuda").sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])


@pytest.mark.parametrize("switches", [{}, {"fuse_sampling": False}])
@pytest.mark.parametrize("facts", [False, True])
def test_it_is_the_text_of_a_loader(switches, facts):
    here = items().sample_neighbor(graph(), [3, 2]).fetch_feature(store(), node=["x"])
    machine = hr.Machine(cores=3, memory=1 << 30)
    found = here.explain(machine=machine, facts=facts, **switches)
    assert found == here.loader(machine=machine, **switches).explain(facts=facts)


def test_a_rank_has_its_gpu_and_exchanges_there():
    alone, together = plan().explain(machine=EIGHT), plan().explain(machine=EIGHT, cooperative=True)
    assert "on_stream(cuda:3)" in alone
    runs = together.partition("plan as written")[0]
    assert "copy_to('cuda:3')" in runs
    assert runs.index("copy_to") < runs.index("exchange_ids") < runs.index("exchange_rows")
    owned = hr.Partition.range(graph().num_nodes, 8)
    assert "RangePartition" in plan().explain(machine=EIGHT, cooperative=True, partition=owned)


def test_without_a_machine_it_is_for_this_one():
    assert plan().explain().startswith(f"plan that runs, on Machine(cores={hr.Machine.detect().cores}, gpus=")


def test_a_loader_is_not_for_a_rank_that_this_process_is_not():
    """It would read the share of that rank alone, without a word."""
    with pytest.raises(hr.PlanError, match=r"beside a machine of rank 3 of 8.*plan\.explain\(machine=machine\)"):
        items().loader(machine=EIGHT)
    with items().loader(machine=EIGHT, rank=3, world_size=8) as loader:
        given = sum(batch.num_seeds for batch in loader)
    with items().loader(machine=EIGHT, rank=0, world_size=1) as loader:
        assert given < sum(batch.num_seeds for batch in loader)


def test_refusals():
    with pytest.raises(hr.PlanError, match="explain: expected machine to be"):
        plan().explain(machine=8)
    with pytest.raises(hr.PlanError, match="no_such_pass"):
        plan().explain(no_such_pass=True)
    with pytest.raises(hr.PlanError, match="it has 2 parts, but there are 8 ranks"):
        plan().explain(machine=EIGHT, cooperative=True, partition=hr.Partition.hash(200, 2))
