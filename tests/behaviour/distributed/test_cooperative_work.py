"""The work law: a larger batch takes less a seed, so ranks that cooperate sample and fetch less than ones that do not.

The ratios are those of a NumPy simulation on a graph of the same law: |S3| summed over P independent batches of 1024
seeds, over |S3| of their union. The seed of everything is fixed, so the tests are deterministic; over seeds, means of
six batches vary by less than 1 %.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from ranks import run_ranks

import headrace as hr

pytestmark = pytest.mark.slow

NUM_NODES, MEAN_DEGREE, EXPONENT = 89_250, 10.09, 0.6
PER_RANK, REPETITIONS = 1024, 6
RATIOS = {("labor", 2): 1.79, ("labor", 4): 3.38, ("neighbor", 2): 1.83, ("neighbor", 4): 3.52}
SAMPLERS = {
    "labor": lambda items: items.sample_layer_neighbor(graph(), [10, 10, 10], exact=False, edge_ids=False),
    "neighbor": lambda items: items.sample_neighbor(graph(), [10, 10, 10], edge_ids=False),
}


@cache
def graph() -> hr.Graph:
    """A Chung-Lu graph: undirected, without loops and repeated edges."""
    random = np.random.default_rng(0)
    popularity = np.arange(1, NUM_NODES + 1) ** -EXPONENT
    ends = random.choice(NUM_NODES, (2, int(NUM_NODES * MEAN_DEGREE) // 2), p=popularity / popularity.sum())
    one, other = ends[:, ends[0] != ends[1]]
    pairs = np.unique(np.concatenate([one * NUM_NODES + other, other * NUM_NODES + one]))
    assert len(pairs) / NUM_NODES == pytest.approx(10.06, abs=0.01)
    return hr.Graph.from_coo(pairs // NUM_NODES, pairs % NUM_NODES, num_nodes=NUM_NODES)


def plan(sampler: str, batch_size: int, num_batches: int) -> hr.Plan:
    seeds = torch.randperm(NUM_NODES, generator=torch.Generator().manual_seed(batch_size))
    return SAMPLERS[sampler](hr.ItemSampler(seeds[: batch_size * num_batches], batch_size=batch_size, seed=0))


def inputs(sampler: str, world_size: int, **options: bool) -> int:
    """The inputs of all batches, summed over ranks: of what they own, if they cooperate."""

    def of_rank(comm):
        where = {"comm": comm} if options else {"rank": comm.rank, "world_size": world_size}
        with plan(sampler, PER_RANK * world_size, REPETITIONS).loader(num_threads=1, **where, **options) as loader:
            return sum(sum(batch.num_sampled_nodes) for batch in loader)

    return sum(run_ranks(world_size, of_rank))


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_cooperating_ranks_reach_as_much_less_as_the_law_says(sampler, world_size):
    ratio = inputs(sampler, world_size) / inputs(sampler, world_size, cooperative=True)
    assert ratio == pytest.approx(RATIOS[sampler, world_size], rel=0.05)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_work_a_seed_falls_and_work_a_batch_is_concave(sampler):
    sizes = [256, 512, 1024, 2048, 4096, 8192]
    work = [
        np.mean([[sum(batch.num_sampled_nodes[: layer + 1]) for layer in (1, 2, 3)] for batch in loader], axis=0)
        for loader in (plan(sampler, size, REPETITIONS).loader(num_threads=1) for size in sizes)
    ]
    for layer in range(3):
        points = [(0, 0.0), *((size, float(reached[layer])) for size, reached in zip(sizes, work, strict=True))]
        a_seed = [reached / size for size, reached in points[1:]]
        assert a_seed == sorted(a_seed, reverse=True)
        slopes = [(more - less) / (larger - smaller) for (smaller, less), (larger, more) in pairwise(points)]
        assert slopes == sorted(slopes, reverse=True)
