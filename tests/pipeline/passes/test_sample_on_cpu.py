"""What is sampled where the CPU stands in for a GPU is the same, whether a GPU samples it or not."""

from __future__ import annotations

import pytest

import headrace as hr

from gpu_plans import copied_first, digests, names
from plans import NUM_NODES, PLANS, graph, items

RANKS = hr.Machine(gpus=1, world_size=2)

SAMPLERS = {
    "ladies": lambda plan: plan.sample_ladies(graph(), [8, 8]),
    "pinsage": lambda plan: plan.sample_pinsage(graph(), num_layers=1, num_walks=3, walk_length=2, num_neighbors=2),
    "saint": lambda plan: plan.sample_saint_edge(graph(), 5),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_same_result(name):
    assert digests(SAMPLERS[name](items().copy_to("cuda")), hr.Machine(gpus=1)) == digests(
        SAMPLERS[name](items()), hr.Machine()
    )


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize(
    "name", ["neighbor", "link_negatives", "link_excluding_per_seed", "disjoint", "typed_temporal"]
)
def test_ranks_with_shares_of_a_batch_get_the_same_on_a_gpu(name, rank):
    machines = [hr.Machine(gpus=gpus, world_size=2, rank=rank) for gpus in (1, 0)]
    assert digests(copied_first(PLANS[name]()), machines[0]) == digests(PLANS[name](), machines[1])


def test_ranks_that_exchange_ids_sample_on_the_cpu():
    plan = items().copy_to("cuda").sample_neighbor(graph(), [3, 3])
    assert names(plan, RANKS, cooperative=True)[-1] == "copy_to"
    shard = graph().shard(hr.Partition.hash(NUM_NODES, 2), 0)
    in_shards = items().copy_to("cuda").sample_neighbor(shard, [3, 3])
    assert names(in_shards, RANKS) == [*names(in_shards.stages[0].sample_neighbor(shard, [3, 3]), RANKS), "copy_to"]
