"""Sizes and scores of caches that could have no effect are refused."""

from __future__ import annotations

import pytest
import torch
from caches import cached_bytes

import headrace as hr


@pytest.mark.parametrize("policy", ["static", "look-ahead"])
def test_scores_that_are_no_numbers_are_refused_and_others_decide(policy):
    x, scores = torch.eye(4), [float("inf"), -1.0, float("-inf"), 2.0]
    with pytest.raises(hr.InputError, match=r"numbers, got nan, first of row 1; .*nan_to_num"):
        hr.CachedFeature(x, policy, rows=2, scores=[0.0, float("nan"), 1.0, float("nan")])
    cached = hr.CachedFeature(x, policy, rows=2, scores=scores)
    cached.read(torch.arange(4))
    cached.read(torch.arange(4))
    assert [cached.read(torch.tensor([row])).counts["hits"] for row in (0, 3, 1, 2)] == [1, 1, 0, 0]
    assert hr.scores.ranking(scores).tolist() == [0, 3, 1, 2]
    with pytest.raises(hr.InputError, match="reorder: expected scores that are numbers"):
        hr.reorder(hr.Graph.from_coo([0], [1]), scores=[float("nan"), 1.0])


@pytest.mark.parametrize("policy", ["sieve", "lru", "clock", "s3-fifo", "look-ahead"])
def test_a_budget_that_holds_no_row_is_refused(policy):
    row = cached_bytes(16, policy)
    with pytest.raises(hr.InputError, match=rf"at least one row, got bytes=1; a row takes {row} bytes"):
        hr.CachedFeature(torch.eye(4), policy, bytes=1)
    assert hr.CachedFeature(torch.eye(4), policy, bytes=row).capacity == 1
    assert hr.CachedFeature(torch.eye(4)[:0], policy, bytes=1).capacity == 0  # of no rows all are there
    store = hr.FeatureStore(node={"x": torch.eye(4), "y": torch.eye(4)})
    with pytest.raises(hr.InputError, match=rf"row of each feature, got bytes=9; give bytes={2 * row}"):
        hr.cached(store, bytes=9, policy=policy)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cache_on_a_gpu_that_is_not_here_is_refused_when_the_loader_is_made():
    graph = hr.Graph.from_coo([0, 1], [1, 0])
    store = hr.cached(hr.FeatureStore(node={"x": torch.eye(4)[:2]}), bytes=1000, place="cuda:1")
    plan = hr.ItemSampler(2, batch_size=1).sample_neighbor(graph, [1]).fetch_feature(store, node=["x"])
    assert "place='cuda:1'" in plan.explain(machine=hr.Machine(gpus=2))
    with pytest.raises(hr.HeadraceError, match="CachedFeature: expected a device of this machine, got cuda:1"):
        plan.loader()
