"""Lowered stages of cooperative plans, some of them written by hand."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hand_made import hand_made
from ranks import run_ranks

import headrace as hr
import headrace.pipeline
from headrace.ext import LaborImportanceRule
from headrace.ops import labor_importance
from headrace.pipeline.distributed.rank_reducer import RankReducer
from headrace.pipeline.lowered.ranks._together import Together
from headrace.pipeline.partition.router import RankRouter
from headrace.testing import LocalGroup

from plans import graph, items

pytestmark = pytest.mark.slow


def test_rounds_of_labor_star_are_those_of_one_process():
    """2 + 3 (1 + rounds of importance) of them; one collective more."""
    whole = items(batch_size=40).sample_layer_neighbor(graph(), [4], importance="*")
    rule = LaborImportanceRule(4)
    num_sizes = [
        len(
            labor_importance(
                graph().indptr, graph().indices, batch.n_id[: batch.num_sampled_nodes[0]], rule
            ).expected_sizes
        )
        for batch in whole.loader()
    ]

    def counted(comm):
        with whole.loader(cooperative=True, comm=comm) as loader:
            num_batches = len(list(loader))
            stats = loader.stats().lowered["sample_hop"]
            return stats["rounds"] - 2 * num_batches, stats["collectives"] - 3 * num_batches, stats["sent_bytes"] > 0

    assert run_ranks(3, counted) == [(3 * sum(num_sizes), 3 * sum(num_sizes), True)] * 3


def test_channels_carry_the_collectives_that_are_counted():
    """Rounds and bytes of the reducer, method by method, by hand: two ranks, of which each wants 3 of 6 nodes."""

    def work(comm):
        reducer = RankReducer(hr.Partition.range(6, 2), comm)  # rank 0 owns 0, 1, 2
        reducer.begin(np.array([[1, 2, 4], [5, 2, 3]][comm.rank]))
        steps = [(comm.num_collectives, replace(reducer.traffic))]
        answers = []
        for call in (
            reducer.counted,
            lambda: reducer.largest(np.array([[1.0, 2.0, np.inf], [5.0, 7.0, 0.0]][comm.rank])),
            lambda: reducer.sums(np.array([[[1, 2]] * 3, [[10, 1 << 40]] * 3][comm.rank])),
            lambda: reducer.total(np.array([1 + comm.rank, 1 << 40])),
            lambda: reducer.gather(np.array([[], [8, 9]][comm.rank], np.int64)),
        ):
            answers.append(call().tolist())
            steps.append((comm.num_collectives, replace(reducer.traffic)))
        assert all(collectives == traffic.collectives for collectives, traffic in steps)
        assert [traffic.rounds for _, traffic in steps] == [1, 2, 4, 6, 7, 8]
        assert [traffic.collectives for _, traffic in steps] == [2, 3, 5, 7, 8, 10]
        return answers, [traffic.sent_bytes for _, traffic in steps]

    (first, first_bytes), (second, second_bytes) = run_ranks(2, work)
    assert first == [
        [True, True, True],
        [1.0, 7.0, np.inf],
        [[1, 2], [11, 2 + (1 << 40)], [1, 2]],
        [3, 1 << 41],
        [8, 9],
    ]
    assert second[0] == [True, False, True]
    assert second[1:3] == [[5.0, 7.0, 0.0], [[10, 1 << 40], [11, 2 + (1 << 40)], [10, 1 << 40]]]
    assert second[3:] == first[3:]
    # One node of each belongs to the other: an id, a flag for it, a value each way, two values each way, two words.
    assert first_bytes == [8, 9, 25, 57, 73, 73]
    assert second_bytes == [8, 9, 25, 57, 73, 89]


def test_hops_sampled_together_check_their_partition():
    """Also in plans that were written by hand."""
    rule, comm = LaborImportanceRule(2), LocalGroup(2).comms[0]

    def plan(partition):
        hop = hand_made(items()).sample_hop(graph(), rule, layer=0, key_layer=0, finder=Together(partition))
        return hop.compact(graph(), expand="all")

    with pytest.raises(hr.PlanError, match="sample_hop: expected a partition of the graph's 200 nodes, got one of 199"):
        plan(hr.Partition.hash(199, 2)).loader(comm=comm, rank=0, world_size=2)

    def with_three_parts(comm):
        with pytest.raises(hr.PlanError, match="sample_hop: the partition has 3 parts, but there are 2 ranks"):
            plan(hr.Partition.hash(200, 3)).loader(comm=comm)

    run_ranks(2, with_three_parts)


def test_only_the_loader_runs_stages():
    """So what it checks before, stages need not check again. `check_stage` runs some to see what they do."""
    pipeline = Path(headrace.pipeline.__path__[0])

    def callers(call: str) -> list[str]:
        return sorted(path.name for path in pipeline.rglob("*.py") if re.search(call, path.read_text()))

    # Where a launcher is a runner, or a stage has another in it; plans of one batch are lowered in the same file, and
    # checked there.
    assert callers(r"\.runner\(") == ["check_stage.py", "lower.py", "plant_trees_together.py", "stage.py"]
    assert callers(r"\.launcher\(") == ["lower.py"]
    assert callers(r"(?<!def )\bstep_of\(") == ["lower.py"]
    assert callers(r"= lower\(") == ["loader.py"]
    text = (pipeline / "run/loader.py").read_text()
    assert text.index("= rewritten(") < text.index("= lower(")
    assert "check_ranks(rewriting.final" in (pipeline / "run/rewritten.py").read_text()


def test_exchanges_written_by_hand_check_their_partition_before_any_rank_waits():
    importlib.import_module("headrace.pipeline.passes")  # the stages that passes make are loaded with these
    plan = hand_made(items()).exchange_ids(RankRouter(hr.Partition.hash(200, 3)))
    comm = LocalGroup(2, timeout=0.1).comms[0]
    with pytest.raises(hr.PlanError, match="exchange_ids: the partition has 3 parts, but there are 2 ranks"):
        plan.loader(comm=comm)
    assert comm.num_collectives == 0
    with pytest.raises(hr.PlanError, match="the partition has 3 parts, but there is 1 rank"):
        plan.loader(comm=LocalGroup(1).comms[0])
