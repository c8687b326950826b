"""The sampler's own probabilities: exact where they can be, close to counts elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import headrace as hr

from plans import PLANS

NUM_BATCHES = 2_000


def star() -> hr.Graph:
    """Two destinations, 8 and 9, of which the second has more in-edges; 0 and 1 send to both."""
    return hr.Graph.from_coo([0, 1, 0, 1, 2, 3], [8, 8, 9, 9, 9, 9], num_nodes=10)


def test_one_hop_of_one_seed_is_exact():
    items = hr.ItemSampler([8, 9, 8], batch_size=1)
    found = hr.scores.inclusion(items.sample_neighbor(star(), [1]))
    seeds = [2 / 3, 1 / 3]
    assert found[8:].tolist() == pytest.approx(seeds)
    assert found[0] == pytest.approx(1 - (1 - seeds[0] / 2) * (1 - seeds[1] / 4))
    assert found[2] == pytest.approx(seeds[1] / 4)
    assert found[4] == 0


def test_destinations_of_labor_agree():
    both = hr.ItemSampler([8, 9], batch_size=2)
    apart = hr.scores.inclusion(both.sample_neighbor(star(), [1]))
    together = hr.scores.inclusion(both.sample_layer_neighbor(star(), [1]))
    assert apart[0] == pytest.approx(1 - 0.5 * 0.75)
    assert together[0] == pytest.approx(0.5)
    assert together[2] == pytest.approx(0.25)


def test_hops_go_on_from_all_nodes_or_from_new_ones():
    chain = hr.Graph.from_coo([1, 2, 3, 0], [0, 0, 1, 3], num_nodes=4)  # 1, 2 -> 0; 3 -> 1
    items = hr.ItemSampler([0], batch_size=1)
    every = hr.scores.inclusion(items.sample_neighbor(chain, [1, 1]))
    new = hr.scores.inclusion(items.sample_neighbor(chain, [1, 1], expand="new"))
    assert every.tolist() == pytest.approx([1, 0.75, 0.75, 0.5])
    assert new.tolist() == pytest.approx([1, 0.5, 0.5, 0.5])
    kept = hr.scores.inclusion(items.sample_layer_neighbor(chain, [1, 1], layer_dependency=True))
    assert kept.tolist() == pytest.approx([1, 0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (hr.ItemSampler(5, batch_size=2), 1 / 3),
        (hr.ItemSampler(5, batch_size=2, drop_last=True, shuffle=True), 2 / 5),
        (hr.ItemSampler(5, batch_size=2, drop_last=True), 1 / 2),
        (hr.ItemSampler(5, batch_size=9), 1),
        (hr.ItemSampler(5, batch_size_per_rank=5), 1),
        (hr.ItemSampler(torch.arange(6).reshape(3, 2), batch_size=1), 1 / 3),
        (hr.ItemSampler([0, 0, 0, 1, 2], batch_size=2), 2 / 3),
        (hr.ItemSampler([0, 0, 1, 2, 0], batch_size=2, drop_last=True), 1 / 2),
        (hr.ItemSampler([0, 0, 1, 2, 3], batch_size=2, shuffle=True), (7 / 10 + 7 / 10 + 2 / 5) / 3),
        (hr.ItemSampler([0, 0, 0, 0, 3], batch_size=2, shuffle=True, drop_last=True), 1),
    ],
)
def test_seeds(items, expected):
    one = hr.Graph.from_coo([], [], num_nodes=7)
    assert hr.scores.inclusion(items.sample_neighbor(one, [1]))[0] == pytest.approx(expected)


def test_items_that_every_epoch_leaves_out_are_no_seeds():
    one = hr.Graph.from_coo([], [], num_nodes=5)
    plan = hr.ItemSampler([3, 1, 4, 0, 2], batch_size=2, drop_last=True).sample_neighbor(one, [1])
    assert hr.scores.inclusion(plan).tolist() == [0.5, 0.5, 0, 0.5, 0.5]


@pytest.mark.combinations(5)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["neighbor", "neighbor_new", "neighbor_replace", "full", "labor", "labor_poisson", "labor_dependent", "labor_new",
     "labor_1", "labor_star", "weighted", "weighted_replace", "weighted_labor", "pairs", "repeated_seeds"],
)  # fmt: skip
def test_it_is_close_to_counts(name):
    """On a small graph, most of which a batch reaches: nodes of a frontier are far from independent there."""
    source, *stages = PLANS[name]().stages
    one = hr.Plan([replace(source, shuffle=True), *stages])  # as access_frequency has it
    found = hr.scores.inclusion(one)
    counts = hr.scores.access_frequency(one, num_batches=NUM_BATCHES) / NUM_BATCHES
    assert float((found - counts).abs().mean()) < 0.06
    assert float(found.sum() / counts.sum()) == pytest.approx(1, abs=0.1)
    assert bool((found <= 1 + 1e-12).all())
    assert bool((found[counts > 0] > 0).all())
    assert np.corrcoef(found, counts)[0, 1] > 0.95


@pytest.mark.slow
@pytest.mark.law
@pytest.mark.combinations(1)
@pytest.mark.parametrize(("replace", "tolerance"), [(False, 0.02), (True, 0.005)])
def test_picks_by_weight(replace, tolerance):
    """Those of a graph of two rows, of which two hundred draw at a time in another graph."""
    weights = torch.tensor([0.0, 1, 2, 3, 4, 10, 5, 1], dtype=torch.float64)
    src, dst = torch.arange(8), torch.tensor([8] * 7 + [9])
    one = hr.Graph.from_coo(src, dst, num_nodes=10, edge_attrs={"weight": weights})
    ahead = 10 * torch.arange(200)[:, None]
    ends = [(side + ahead).flatten() for side in (src, dst)]
    many = hr.Graph.from_coo(*ends, num_nodes=2_000, edge_attrs={"weight": weights.repeat(200)})
    seeds = (torch.tensor([8, 9]) + ahead).flatten()
    for fanout in (1, 3, 5, 6, 7, -1):
        options = {"weight": "weight", "replace": replace}
        # Seeds of the only batch, and in one hop: what is in it is what is picked.
        picks = hr.scores.inclusion(hr.ItemSampler([8, 9], batch_size=2).sample_neighbor(one, [fanout], **options))[:8]
        items = hr.ItemSampler(seeds.repeat(20), batch_size=400)
        plan = items.sample_neighbor(many, [fanout], **options)
        counts = sum(torch.bincount(batch.n_id % 10, minlength=10) for batch in plan.loader())
        assert (picks - counts[:8] / 4_000).abs().max() < tolerance + 0.03
        if not replace and fanout > 0:
            assert float(picks[:7].sum()) == pytest.approx(min(fanout, 6), abs=1e-4)


def test_seeds_may_be_pairs_whose_edges_are_excluded():
    pairs = hr.ItemSampler(torch.tensor([[0, 8], [1, 9]]))
    excluding = pairs.exclude_seed_edges().sample_neighbor(star(), [1])
    assert hr.scores.inclusion(excluding)[0] > 0
