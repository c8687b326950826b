"""What scores refuse, with what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import headrace as hr

from plans import PLANS, graph

STAR = hr.Graph.from_coo([0, 1, 0, 1, 2, 3], [8, 8, 9, 9, 9, 9], num_nodes=10)
PAIRS = hr.ItemSampler(torch.tensor([[0, 8], [1, 9]]))
NAN = float("nan")

REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no graph": (lambda: hr.scores.out_degree(torch.ones(3)), hr.InputError, r"expected a whole hr\.Graph"),
    **{
        f"damping {value!r}": (
            lambda value=value: hr.scores.reverse_pagerank(graph(), damping=value),
            hr.InputError,
            r"damping in \[0, 1\)",
        )
        for value in (-0.1, 1, NAN, "0.85", True)
    },
    "iterations": (
        lambda: hr.scores.reverse_pagerank(graph(), iterations=-1),
        hr.InputError,
        "iterations to be an integer from 0 to 10000",
    ),
    "an item that is no node": (
        lambda: hr.scores.weighted_reverse_pagerank(graph(), [200]),
        hr.InputError,
        "expected items that are nodes of the graph, which has 200, got 200",
    ),
    "a short mask": (
        lambda: hr.scores.weighted_reverse_pagerank(graph(), torch.tensor([True, False, True])),
        hr.InputError,
        "expected a mask of 200 nodes, got one of 3",
    ),
    "no items": (lambda: hr.scores.weighted_reverse_pagerank(graph(), []), hr.InputError, "at least one item"),
    "frequency without a sampler": (
        lambda: hr.scores.access_frequency(hr.ItemSampler(3)),
        hr.PlanError,
        "expected a plan with a sampler",
    ),
    "frequency of no batches": (
        lambda: hr.scores.access_frequency(PLANS["neighbor"](), num_batches=0),
        hr.InputError,
        "num_batches to be an integer from 1 to",
    ),
    "ranking of a matrix": (lambda: hr.scores.ranking(torch.ones(2, 2)), hr.InputError, "expected scores"),
    "ranking of NaN": (lambda: hr.scores.ranking(torch.tensor([1.0, NAN])), hr.InputError, "expected scores"),
    "ranking of booleans": (lambda: hr.scores.ranking(torch.tensor([True])), hr.InputError, "expected scores"),
    **{
        f"inclusion of {name}": (
            lambda name=name: hr.scores.inclusion(PLANS[name]()),
            hr.PlanError,
            r"use hr.scores.access_frequency\(plan\)",
        )
        for name in ("ladies", "pinsage", "saint_node", "items")
    },
    "inclusion of a graph": (lambda: hr.scores.inclusion(graph()), hr.InputError, "expected a plan, got Graph"),
    "inclusion of an item that is no node": (
        lambda: hr.scores.inclusion(hr.ItemSampler([200]).sample_neighbor(graph(), [1])),
        hr.InputError,
        "item 200 is no node of the graph, which has 200",
    ),
    "inclusion of trees": (
        lambda: hr.scores.inclusion(hr.ItemSampler([8, 9], batch_size=2).sample_neighbor(STAR, [1], disjoint=True)),
        hr.PlanError,
        r"got sample_neighbor of trees \(disjoint=True or time=\); use hr.scores",
    ),
    "inclusion of negatives": (
        lambda: hr.scores.inclusion(PAIRS.sample_uniform_negative(STAR, 2).sample_neighbor(STAR, [1])),
        hr.PlanError,
        "got sample_uniform_negative, which adds others.*access_frequency",
    ),
    "inclusion of two graphs": (
        lambda: hr.scores.inclusion(PAIRS.sample_uniform_negative(graph(), 2).sample_neighbor(STAR, [1])),
        hr.InputError,
        "sample_neighbor: expected the 200 nodes .*got 10",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()
