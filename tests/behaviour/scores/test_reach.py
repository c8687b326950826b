"""The laws of hops against counts of real batches, on graphs where nodes do come independently of each other.

Counts of a node of chance p in n batches deviate by s = sqrt(p * (1 - p) / n); five of those are allowed for each node,
and for the sum, whose deviation is measured. Laws that are wrong are off by much more: each test says by how much.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

NUM_BATCHES = 4_000


def forest(num_trees: int = 4, num_nodes: int = 60) -> hr.Graph:
    """Trees of which each node but the roots, which come first, sends to one other: nothing is reached by two ways."""
    random = np.random.default_rng(0)
    src = np.arange(num_trees, num_nodes)
    return hr.Graph.from_coo(src, [random.integers(0, max(num_trees, node // 3)) for node in src], num_nodes=num_nodes)


def roots_one_by_one(num_trees: int = 4) -> hr.Plan:
    """Batches of one root each, 400 in an epoch."""
    return hr.ItemSampler(torch.arange(num_trees).repeat(100), batch_size=1, shuffle=True, seed=0)


def deviations(found: torch.Tensor, plan: hr.Plan, num_batches: int = NUM_BATCHES) -> torch.Tensor:
    """Return by how many standard deviations counts of a run are above what was found, by node."""
    counts = hr.scores.access_frequency(plan, num_batches=num_batches)
    certain = (found < 1e-9) | (found > 1 - 1e-9)
    assert torch.equal(counts[certain], num_batches * found[certain].round())
    spread = (num_batches * found * (1 - found)).sqrt().where(~certain, torch.ones_like(found))
    return (counts - num_batches * found).where(~certain, torch.zeros_like(found)) / spread


def as_if_hops_were_independent(plan: hr.Plan, graph: hr.Graph, fanouts: list[int]) -> torch.Tensor:
    """The product over hops that counts a node of several hops for each of them, as if it were another each time."""
    dst = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees())
    reached = torch.zeros(graph.num_nodes, dtype=torch.float64)
    seeds = plan.stages[0].items.all_ids().unique()
    reached[seeds] = 1 / len(seeds)
    for fanout in fanouts:
        missed = torch.ones_like(reached)
        missed[graph.indices.long()] = 1 - reached[dst] * (fanout / graph.in_degrees()[dst]).clamp(max=1)
        reached = 1 - (1 - reached) * missed
    return reached


WAYS = {
    "neighbor": lambda plan, one, more: plan.sample_neighbor(one, [1, 2, 1], **more),
    "replace": lambda plan, one, more: plan.sample_neighbor(one, [2, 1, 3], replace=True, **more),
    "labor": lambda plan, one, more: plan.sample_layer_neighbor(one, [2, 1, 1], **more),
    "poisson": lambda plan, one, more: plan.sample_layer_neighbor(one, [1, 2, 1], exact=False, **more),
    "growing": lambda plan, one, more: plan.sample_layer_neighbor(one, [1, 2, 3], layer_dependency=True, **more),
    "falling": lambda plan, one, more: plan.sample_layer_neighbor(one, [3, 2, 1], layer_dependency=True, **more),
    "up_and_down": lambda plan, one, more: plan.sample_layer_neighbor(
        one, [1, -1, 2], layer_dependency=True, exact=False, **more
    ),
}


@pytest.mark.slow
@pytest.mark.combinations(5)
@pytest.mark.parametrize("expand", ["all", "new"])
@pytest.mark.parametrize("way", WAYS)
def test_trees_are_exact(way, expand):
    plan = WAYS[way](roots_one_by_one(), forest(), {"expand": expand})
    off = deviations(hr.scores.inclusion(plan), plan)
    assert float(off.abs().max()) < 5


@pytest.mark.thorough
@pytest.mark.slow
def test_trees_by_weight_are_exact():
    """With replacement and by LABOR the picks themselves have no closed form that is only close."""
    one = forest()
    weights = torch.from_numpy(np.random.default_rng(1).random(one.num_edges)) + 0.1
    dst = torch.repeat_interleave(torch.arange(one.num_nodes), one.in_degrees())
    one = hr.Graph.from_coo(one.indices, dst, num_nodes=one.num_nodes, edge_attrs={"weight": weights})
    for expand in ("all", "new"):
        for plan in (
            roots_one_by_one().sample_neighbor(one, [1, 2, 1], weight="weight", replace=True, expand=expand),
            roots_one_by_one().sample_layer_neighbor(one, [1, 2, 1], weight="weight", exact=False, expand=expand),
            roots_one_by_one().sample_layer_neighbor(
                one, [2, 1, 2], weight="weight", exact=False, expand=expand, layer_dependency=True
            ),
        ):
            assert float(deviations(hr.scores.inclusion(plan), plan).abs().max()) < 5


@pytest.mark.slow
def test_counts_tell_the_law_from_a_product_over_hops():
    """The power of these tests: the product is off by 6 deviations and more, and by 8 % of all accesses."""
    plan = roots_one_by_one().sample_neighbor(forest(), [1, 1, 1])
    wrong, right = as_if_hops_were_independent(plan, forest(), [1, 1, 1]), hr.scores.inclusion(plan)
    assert float(deviations(wrong.clamp(max=1), plan).abs().max()) > 6
    assert float(wrong.sum() / right.sum()) > 1.08
    accesses = hr.scores.access_frequency(plan, num_batches=NUM_BATCHES).sum() / NUM_BATCHES
    assert float(right.sum() / accesses) == pytest.approx(1, abs=0.01)


def test_a_star_of_one_seed_is_its_formula():
    """Seed 0 is in a quarter of the batches, and then draws 1 of 5 afresh at each of three hops."""
    star = hr.Graph.from_coo(range(4, 9), [0] * 5, num_nodes=9)
    items = hr.ItemSampler(4, batch_size=1, shuffle=True)
    for plan in (items.sample_neighbor(star, [1, 1, 1]), items.sample_layer_neighbor(star, [1, 1, 1])):
        assert hr.scores.inclusion(plan)[4:].tolist() == pytest.approx([0.25 * (1 - 0.8**3)] * 5)
    for plan in (
        items.sample_neighbor(star, [1, 1, 1], expand="new"),
        items.sample_layer_neighbor(star, [1, 1, 1], layer_dependency=True),
    ):
        assert hr.scores.inclusion(plan)[4:].tolist() == pytest.approx([0.25 * 0.2] * 5)


def test_fanouts_that_grow_let_nodes_of_before_reach_more():
    """A seed of 20 in-edges that picks by 5 and then by 10, with the same variates, has the 10 smallest."""
    star = hr.Graph.from_coo(range(1, 21), [0] * 20, num_nodes=21)
    items = hr.ItemSampler(1, batch_size=1)
    for fanouts, expand, expected in (
        ([5, 10], "all", 0.5),
        ([10, 5], "all", 0.5),
        ([5, -1], "all", 1),
        ([5, 10], "new", 0.25),
    ):
        plan = items.sample_layer_neighbor(star, fanouts, layer_dependency=True, expand=expand)
        assert hr.scores.inclusion(plan)[1:].tolist() == pytest.approx([expected] * 20)
        counts = hr.scores.access_frequency(plan, num_batches=50)
        assert float(counts[1:].sum()) == pytest.approx(50 * 20 * expected)


def meeting(*, apart: bool = False) -> hr.Graph:
    """Node 4 sends to 2 and 3, of which either comes by chance on its own, and to seed 0; 15 sends to 4 alone.

    Where a node picks so many in-edges without replacement, 2 and 4 do not come to seed 0 independently: with `apart`,
    4 does not send to it.
    """
    ways = {
        0: [2, 7, 5, 6] if apart else [2, 4, 5, 6],
        1: [3, 7, 8],
        2: [4, 9, 10],
        3: [4, 11, 12, 13, 14],
        4: [15, 16],
    }
    src, dst = zip(*((source, node) for node, sources in ways.items() for source in sources), strict=True)
    return hr.Graph.from_coo(src, dst, num_nodes=17)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("fanouts", [[1, 1, 1], [1, 2, 3], [3, 2, 1], [2, 1, 2]])
@pytest.mark.parametrize("expand", ["all", "new"])
def test_destinations_agree_over_all_hops(fanouts, expand):
    """Seeds are the same in all batches, so nodes come independently of each other. Poisson, as rows then are."""
    items = hr.ItemSampler(2, batch_size=2)
    plan = items.sample_layer_neighbor(meeting(), fanouts, exact=False, layer_dependency=True, expand=expand)
    assert float(deviations(hr.scores.inclusion(plan), plan, 8_000).abs().max()) < 5
    plan = items.sample_neighbor(meeting(apart=True), fanouts, expand=expand)
    assert float(deviations(hr.scores.inclusion(plan), plan, 8_000).abs().max()) < 5


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("fanouts", [[1, 1, 1], [1, 2, 3], [3, 2, 1]])
def test_destinations_of_labor_that_draws_afresh_are_close(fanouts):
    items = hr.ItemSampler(2, batch_size=2)
    plan = items.sample_layer_neighbor(meeting(), fanouts, exact=False)
    counts = hr.scores.access_frequency(plan, num_batches=8_000) / 8_000
    assert float((hr.scores.inclusion(plan) - counts).abs().max()) < 0.03
