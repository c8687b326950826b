"""Scores are the same for any number of threads."""

from __future__ import annotations

import numpy as np
import torch
from skewed_graphs import NUM_NODES, directed

import headrace as hr
from headrace.ops import _native


def plan(power: float = 0.85) -> hr.Plan:
    items = np.random.default_rng(1).choice(NUM_NODES, NUM_NODES // 10, replace=False)
    sampler = hr.ItemSampler(items, batch_size=2, shuffle=True, seed=3)
    return sampler.sample_neighbor(directed(power=power), [5, 5, 5])


def test_threads_change_no_bit():
    _native.share_all_work(True)
    try:
        for score in (
            hr.scores.out_degree,
            lambda one, **threads: hr.scores.weighted_reverse_pagerank(one, 100, **threads),
            lambda one, **threads: hr.scores.inclusion(plan(), **threads),
            lambda one, **threads: hr.scores.inclusion(plan_of_labor(), **threads),
        ):
            results = [score(directed(), num_threads=threads) for threads in (1, 2, 5)]
            assert all(torch.equal(result, results[0]) for result in results)
    finally:
        _native.share_all_work(False)


def plan_of_labor() -> hr.Plan:
    return hr.ItemSampler(NUM_NODES, batch_size=2, seed=3).sample_layer_neighbor(directed(), [5, 5])
