"""Ranks that share edges compute what one process does: every strategy, partition of edges and kind of message."""

from __future__ import annotations

import pytest
from hybrid import KINDS, STRATEGIES, assert_as_one_process, plan

import headrace as hr

from plans import graph

MODELS = ["mean", "weights", "max", "attention"]


@pytest.mark.slow
@pytest.mark.combinations(7)
@pytest.mark.parametrize("world_size", [2, 6])
@pytest.mark.parametrize("kind", [*MODELS, "sum", "min", "weighted mean", "weighted min"])
def test_every_kind_of_message(kind, world_size):
    assert_as_one_process(plan("cluster with boundary"), kind, hr.EdgePartition.grid(graph(), world_size))


WORLD_SIZES = [1, 2, 3, 4, 6, 8]


@pytest.mark.combinations(8)
@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("partition", KINDS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_strategies(strategy, partition, model):
    """Each strategy, partition and kind of message comes together with each number of ranks."""
    turn = [*STRATEGIES].index(strategy) + 2 * [*KINDS].index(partition) + MODELS.index(model)
    world_size = WORLD_SIZES[turn % len(WORLD_SIZES)]
    assert_as_one_process(plan(strategy), model, KINDS[partition](graph(), world_size))
