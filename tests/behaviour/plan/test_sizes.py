"""Sizes that cannot be: refused before work, with what was asked for and the limit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import headrace as hr

from plans import graph, items

HUGE = (1 << 31) - 1


@pytest.mark.parametrize("num_nodes", [1 << 45, 1 << 62])
def test_nodes(num_nodes):
    with pytest.raises(hr.InputError, match=rf"num_nodes = {num_nodes:,}.*at most the memory of this machine"):
        hr.Graph.from_coo([0], [1], num_nodes=num_nodes)


@pytest.mark.parametrize("num_nodes", [1 << 63, 1 << 64, 1 << 80])
def test_nodes_that_no_id_can_number(num_nodes):
    with pytest.raises(hr.InputError, match=rf"expected num_nodes to be .* below 2\*\*63, got {num_nodes}"):
        hr.Graph.from_coo([0], [1], num_nodes=num_nodes)


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches(shuffle):
    plan = hr.ItemSampler(1 << 62, batch_size=1 << 45, shuffle=shuffle)
    with pytest.raises(hr.InputError, match=rf"batches of {1 << 45:,} items.*lower batch_size"):
        plan.loader()
    assert len(hr.ItemSampler(100, batch_size=1 << 70).loader()) == 1


@pytest.mark.parametrize("fanout", [1 << 45, 1 << 62])
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("fuse_sampling", [False, True])
def test_draws_with_replacement(fanout, weight, fuse_sampling):
    plan = items().sample_neighbor(graph(), [fanout], replace=True, weight=weight)
    with pytest.raises(hr.InputError, match=f"a fanout of {fanout} with replacement, for .* nodes, is more draws than"):
        next(iter(plan.loader(fuse_sampling=fuse_sampling)))


@pytest.mark.parametrize(
    "make",
    [
        lambda ragged: hr.Graph.from_coo(ragged, [0, 1]),
        lambda ragged: hr.Graph.from_csc(ragged, [0]),
        lambda ragged: hr.Graph.from_coo([0, 1], [0, 1], edge_attrs={"w": ragged}),
        lambda ragged: hr.FeatureStore(node={"x": ragged}),
        hr.ItemSampler,
        lambda ragged: hr.ItemSampler(([0, 1], ragged)),
    ],
)
def test_ragged_lists(make):
    with pytest.raises(
        hr.InputError,
        match="rows of one length, got a list with rows that differ in length; pad ragged rows",
    ):
        make([[0, 1], [2]])


@pytest.mark.parametrize("array", [["a", "b"], np.array([object(), object()])])
def test_what_is_no_number(array):
    with pytest.raises(hr.InputError, match=r"got (<U1|object).*; map what it holds to numbers first"):
        hr.FeatureStore(node={"x": array})


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("sample_neighbor", {"replace": 1}),
        ("sample_neighbor", {"edge_ids": None}),
        ("sample_layer_neighbor", {"exact": "no"}),
        ("sample_layer_neighbor", {"layer_dependency": 0}),
        ("sample_ladies", {"poisson": torch.tensor(0)}),
    ],
)
def test_switches_are_true_or_false(verb, options):
    with pytest.raises(hr.InputError, match=f"{next(iter(options))} to be True or False"):
        getattr(items(), verb)(graph(), [3], **options)
